#include "attention.h"

#include <string.h>

#include "rows.h"
#include "simd.h"

#define TOGETHER 3  /* query heads whose scores or sums are made at once */
#define KEYS_AHEAD 16
#define PART_HEAD 8 /* floats before a part's weighted sum: greatest score, sum of exponentials, padding */

/* Where a tile's keys and values are as floats. A key that is not there points to zeros. */
typedef struct {
    const float *keys[TILE_KEYS];
    const float *values[TILE_KEYS];
    int cold; /* read in place, for the first time */
} tile;

int64_t part_floats(int head_dim) { return head_dim + PART_HEAD; }

int64_t attention_scratch(int rows, int heads, int head_dim) {
    return (int64_t)(rows + 1) * heads * part_floats(head_dim) + (2 * TILE_KEYS + 1) * (int64_t)head_dim;
}

static int64_t first_seen(const attention *a, int64_t position) {
    return a->window && position >= a->window ? position - a->window + 1 : 0;
}

int attention_tiles(const attention *a, int *first) {
    *first = (int)(first_seen(a, a->position) / TILE_KEYS);
    return (int)((a->position + a->rows - 1) / TILE_KEYS) + 1;
}

void kv_store(const kv_layer *kv, int64_t slot, int head, const float *x) {
    int64_t row = slot * 2 * kv->kv_heads + head;
    if (kv->kind == KV_F32)
        memcpy((float *)kv->values + row * kv->head_dim, x, sizeof(float) * (size_t)kv->head_dim);
    else if (kv->kind == KV_F16)
        store_halves(x, kv->head_dim, (uint16_t *)kv->values + row * kv->head_dim);
    else if (kv->kind == KV_BF16)
        store_bfloats(x, kv->head_dim, (uint16_t *)kv->values + row * kv->head_dim);
    else
        kv->scales[row] = store_bytes(x, kv->head_dim, (int8_t *)kv->values + row * kv->head_dim);
}

INLINE void load_row(const kv_layer *kv, int64_t row, float *out) {
    const int n = kv->head_dim;
    const uint8_t *at = kv->values + row * n * (kv->kind == KV_F32 ? 4 : kv->kind == KV_I8 ? 1 : 2);
    if (kv->kind == KV_F32) {
        for (int i = 0; i < n; i += LANES) _mm256_store_ps(out + i, _mm256_loadu_ps((const float *)at + i));
    } else if (kv->kind == KV_F16) {
        for (int i = 0; i < n; i += LANES) _mm256_store_ps(out + i, half_load(at + 2 * i));
    } else if (kv->kind == KV_BF16) {
        for (int i = 0; i < n; i += LANES) _mm256_store_ps(out + i, bfloat_load(at + 2 * i));
    } else {
        __m256 scale = _mm256_set1_ps(kv->scales[row]);
        for (int i = 0; i < n; i += LANES) {
            __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(at + i)));
            _mm256_store_ps(out + i, _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale));
        }
    }
}

/* Find the keys [low, high) of the tile that begins at `start`; floats used once are left where they are. */
static void find_tile(const attention *a, int64_t start, int64_t low, int64_t high, float *room, tile *t) {
    const kv_layer *kv = a->kv;
    const int n = kv->head_dim;
    const int in_place = kv->kind == KV_F32 && a->rows == 1;
    const float *zeros = room + 2 * TILE_KEYS * n;
    t->cold = in_place;
    for (int k = 0; k < TILE_KEYS; k++) {
        int64_t position = start + k;
        t->keys[k] = t->values[k] = zeros;
        if (position < low || position >= high) continue;
        int64_t block = a->table[position / kv->block_size];
        int64_t row = (block * kv->block_size + position % kv->block_size) * 2 * kv->kv_heads + a->head;
        if (in_place) {
            t->keys[k] = (const float *)kv->values + row * n;
            t->values[k] = (const float *)kv->values + (row + kv->kv_heads) * n;
            continue;
        }
        load_row(kv, row, room + k * n);
        load_row(kv, row + kv->kv_heads, room + (TILE_KEYS + k) * n);
        t->keys[k] = room + k * n;
        t->values[k] = room + (TILE_KEYS + k) * n;
    }
}

/* Ask for keys somewhat ahead, and for the values that come after the scores. */
INLINE void prefetch_keys(const tile *t, int from, int until, int head_dim) {
    for (int k = from; k < from + 4; k++)
        for (int i = 0; i < head_dim; i += 16) {
            if (k + KEYS_AHEAD < until) _mm_prefetch((const char *)(t->keys[k + KEYS_AHEAD] + i), _MM_HINT_T0);
            if (k < until) _mm_prefetch((const char *)(t->values[k] + i), _MM_HINT_T0);
        }
}

/* scores[h * TILE_KEYS + k] = query h . key k for the keys from `from` (a multiple of four) up to `until`, and on to
   the next multiple of four. */
INLINE void score(const tile *t, const float *query, int heads, int head_dim, int from, int until, float *scores) {
    for (int k = from; k < until; k += 4) {
        if (t->cold) prefetch_keys(t, k, until, head_dim);
        __m256 sum[TOGETHER][4];
        for (int h = 0; h < heads; h++)
            for (int j = 0; j < 4; j++) sum[h][j] = _mm256_setzero_ps();
        for (int i = 0; i < head_dim; i += LANES) {
            __m256 key[3];
            for (int j = 0; j < 3; j++) key[j] = _mm256_loadu_ps(t->keys[k + j] + i);
            for (int h = 0; h < heads; h++) {
                __m256 q = _mm256_loadu_ps(query + h * head_dim + i);
                for (int j = 0; j < 3; j++) sum[h][j] = _mm256_fmadd_ps(q, key[j], sum[h][j]);
                sum[h][3] = _mm256_fmadd_ps(q, _mm256_loadu_ps(t->keys[k + 3] + i), sum[h][3]);
                REREAD();
            }
        }
        for (int h = 0; h < heads; h++) {
            __m256 *s = sum[h];
            __m256 a = _mm256_add_ps(_mm256_unpacklo_ps(s[0], s[1]), _mm256_unpackhi_ps(s[0], s[1]));
            __m256 b = _mm256_add_ps(_mm256_unpacklo_ps(s[2], s[3]), _mm256_unpackhi_ps(s[2], s[3]));
            __m256 c = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
            _mm_store_ps(scores + h * TILE_KEYS + k,
                         _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1)));
        }
    }
}

/* Weighted sums of `lanes` * 8 columns of the values [from, until), from column `at` on. */
INLINE void mix(const tile *t, const float *shares, int heads, int lanes, int at, int from, int until, float *out,
                int64_t stride) {
    __m256 sum[TOGETHER][8];
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < lanes; j++) sum[h][j] = _mm256_setzero_ps();
    for (int k = from; k < until; k++) {
        const float *value = t->values[k] + at;
        if (heads == 1) {
            __m256 share = _mm256_broadcast_ss(shares + k);
            for (int j = 0; j < lanes; j++)
                sum[0][j] = _mm256_fmadd_ps(share, _mm256_loadu_ps(value + j * LANES), sum[0][j]);
            continue;
        }
        const int last = lanes - 1;
        __m256 v[8];
        for (int j = 0; j < last; j++) v[j] = _mm256_loadu_ps(value + j * LANES);
        for (int h = 0; h < heads; h++) {
            __m256 share = _mm256_broadcast_ss(shares + h * TILE_KEYS + k);
            for (int j = 0; j < last; j++) sum[h][j] = _mm256_fmadd_ps(share, v[j], sum[h][j]);
            sum[h][last] = _mm256_fmadd_ps(share, _mm256_loadu_ps(value + last * LANES), sum[h][last]);
            REREAD();
        }
    }
    for (int h = 0; h < heads; h++)
        for (int j = 0; j < lanes; j++) _mm256_storeu_ps(out + h * stride + at + j * LANES, sum[h][j]);
}

/* Scores to shares: exponentials below the greatest score; keys outside [from, until) get exactly nothing.
   The heads take turns, so that none waits for its own last result. */
INLINE void soften(float *scores, int heads, int from, int until, float *parts, int64_t size) {
    __m256 greatest[TOGETHER], sum[TOGETHER];
    for (int h = 0; h < heads; h++) {
        float *own = scores + h * TILE_KEYS;
        for (int k = 0; k < from; k++) own[k] = -__builtin_inff();
        for (int k = until; k < TILE_KEYS; k++) own[k] = -__builtin_inff();
        __m256 most = _mm256_load_ps(own);
        for (int k = LANES; k < TILE_KEYS; k += LANES) most = _mm256_max_ps(most, _mm256_load_ps(own + k));
        parts[h * size] = lanes_max(most);
        greatest[h] = _mm256_set1_ps(parts[h * size]);
        sum[h] = _mm256_setzero_ps();
    }
    for (int k = 0; k < TILE_KEYS; k += LANES)
        for (int h = 0; h < heads; h++) {
            float *own = scores + h * TILE_KEYS + k;
            __m256 share = exp_lanes(_mm256_sub_ps(_mm256_load_ps(own), greatest[h]));
            _mm256_store_ps(own, share);
            sum[h] = _mm256_add_ps(sum[h], share);
        }
    for (int h = 0; h < heads; h++) parts[h * size + 1] = lanes_sum(sum[h]);
}

/* The parts that one tile gives `heads` query heads of one row. */
INLINE void make_parts(const tile *t, const float *query, int heads, int head_dim, int from, int until, float *parts) {
    _Alignas(32) float scores[TOGETHER * TILE_KEYS];
    const int64_t size = part_floats(head_dim);
    score(t, query, heads, head_dim, from & ~3, until, scores);
    soften(scores, heads, from, until, parts, size);
    float *sums = parts + PART_HEAD;
    int at = 0;
    if (heads == 1)
        for (; at + 64 <= head_dim; at += 64) mix(t, scores, 1, 8, at, from, until, sums, size);
    for (; at + 32 <= head_dim; at += 32) mix(t, scores, heads, 4, at, from, until, sums, size);
    for (; at < head_dim; at += 16) mix(t, scores, heads, 2, at, from, until, sums, size);
}

/* The parts of one row for the tile that begins at `start`; returns 0 where the row sees nothing of it. */
static int row_parts(const attention *a, int row, int64_t start, const tile *t, float *parts) {
    const int n = a->kv->head_dim;
    int64_t position = a->position + row, low = first_seen(a, position) - start, high = position + 1 - start;
    int from = low < 0 ? 0 : low > TILE_KEYS ? TILE_KEYS : (int)low;
    int until = high < 0 ? 0 : high > TILE_KEYS ? TILE_KEYS : (int)high;
    if (from >= until) return 0;
    const float *query = a->query + row * a->stride;
    for (int h = 0; h < a->heads;) {
        int left = a->heads - h;
        float *at = parts + h * part_floats(n);
        if (left == 3 || left > 4) {
            make_parts(t, query + h * n, 3, n, from, until, at);
            h += 3;
        } else if (left == 1) {
            make_parts(t, query + h * n, 1, n, from, until, at);
            h += 1;
        } else {
            make_parts(t, query + h * n, 2, n, from, until, at);
            h += 2;
        }
    }
    return 1;
}

static void begin_sum(float *sum, int head_dim) {
    memset(sum, 0, sizeof(float) * (size_t)part_floats(head_dim));
    sum[0] = -__builtin_inff();
}

/* sum = sum * old + part * new. */
INLINE void weigh(float *sum, const float *part, float old, float new, int head_dim) {
    const __m256 a = _mm256_set1_ps(old), b = _mm256_set1_ps(new);
    sum[1] = sum[1] * old + part[1] * new;
    for (int i = PART_HEAD; i < PART_HEAD + head_dim; i += LANES)
        _mm256_storeu_ps(
            sum + i, _mm256_fmadd_ps(_mm256_loadu_ps(part + i), b, _mm256_mul_ps(_mm256_loadu_ps(sum + i), a)));
}

/* Add parts to the sums of some heads, each on the scale of the greater of their greatest scores. */
static void merge(float *sums, const float *parts, int heads, int head_dim) {
    const int64_t size = part_floats(head_dim);
    for (int first = 0; first < heads; first += LANES / 2) {
        const int now = heads - first < LANES / 2 ? heads - first : LANES / 2;
        _Alignas(32) float factors[LANES] = {0};
        for (int h = 0; h < now; h++) {
            float *sum = sums + (first + h) * size;
            const float *part = parts + (first + h) * size;
            const float greatest = sum[0] > part[0] ? sum[0] : part[0];
            factors[2 * h] = sum[0] - greatest;
            factors[2 * h + 1] = part[0] - greatest;
            sum[0] = greatest;
        }
        _mm256_store_ps(factors, exp_lanes(_mm256_load_ps(factors)));
        for (int h = 0; h < now; h++)
            weigh(sums + (first + h) * size, parts + (first + h) * size, factors[2 * h], factors[2 * h + 1], head_dim);
    }
}

static void finish(const float *sum, int head_dim, float *out) {
    const __m256 total = _mm256_set1_ps(sum[1]);
    for (int i = 0; i < head_dim; i += LANES)
        _mm256_storeu_ps(out + i, _mm256_div_ps(_mm256_loadu_ps(sum + PART_HEAD + i), total));
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

static void find(const attention *a, int64_t start, float *room, tile *t) {
    int64_t low = later(start, first_seen(a, a->position));
    find_tile(a, start, low, sooner(start + TILE_KEYS, a->position + a->rows), room, t);
}

void attend(const attention *a, float *scratch) {
    const int n = a->kv->head_dim;
    const int64_t size = part_floats(n), row_size = a->heads * size;
    float *sums = scratch, *parts = sums + a->rows * row_size, *room = parts + row_size;
    tile t;
    int first, until = attention_tiles(a, &first);
    memset(room + 2 * TILE_KEYS * n, 0, sizeof(float) * (size_t)n);
    for (int i = 0; i < a->rows * a->heads; i++) begin_sum(sums + i * size, n);
    for (int64_t number = first; number < until; number++) {
        find(a, number * TILE_KEYS, room, &t);
        for (int r = 0; r < a->rows; r++)
            if (row_parts(a, r, number * TILE_KEYS, &t, parts)) merge(sums + r * row_size, parts, a->heads, n);
    }
    for (int r = 0; r < a->rows; r++)
        for (int h = 0; h < a->heads; h++)
            finish(sums + r * row_size + h * size, n, a->out + r * a->stride + h * n);
}

void attend_tiles(const attention *a, int from, int until, float *parts, float *scratch) {
    const int n = a->kv->head_dim;
    float *room = scratch;
    tile t;
    int first;
    attention_tiles(a, &first);
    memset(room + 2 * TILE_KEYS * n, 0, sizeof(float) * (size_t)n);
    for (int64_t number = from; number < until; number++) {
        find(a, number * TILE_KEYS, room, &t);
        row_parts(a, 0, number * TILE_KEYS, &t, parts + (number - first) * a->heads * part_floats(n));
    }
}

void attend_merge(const attention *a, int tiles, const float *parts, float *scratch) {
    const int n = a->kv->head_dim;
    const int64_t size = part_floats(n);
    for (int h = 0; h < a->heads; h++) begin_sum(scratch + h * size, n);
    for (int number = 0; number < tiles; number++) merge(scratch, parts + number * a->heads * size, a->heads, n);
    for (int h = 0; h < a->heads; h++) finish(scratch + h * size, n, a->out + h * n);
}
