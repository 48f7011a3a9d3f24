/* Multiplies rows of activations by panels of weights.

   Up to FUSED_ROWS rows: each record is read once, its weights are made in registers and used for all rows.
   More rows: for a block of inputs the first rows do the same and leave the weights behind as floats in the first-level
   cache, where the other rows find them. Sums are kept in `out` between blocks, so a sum is one chain of fused
   multiply-adds over ascending inputs on either way. */
#include "formats.h"

#define FUSED_ROWS 5
#define TILE_ROWS 6
#define AHEAD_BYTES 1536

typedef struct {
    const float *x;
    int64_t x_stride;
    float *out;
    int64_t out_stride;
    int resume; /* go on from the sums in `out` instead of from zero */
} rows_view;

int record_inputs(int kind) { return inputs_of(kind); }
int record_bytes(int kind) { return bytes_of(kind); }

/* `rows` rows by `count` neighbouring panels over `records` records; if `keep`, `kept` takes the weights as floats. */
INLINE void fused(int kind, int rows, int count, int keep, const uint8_t *panel, int64_t panel_bytes, int records,
                  rows_view v, float *kept) {
    __m256 sum[FUSED_ROWS][2 * 2];
    const float *x[FUSED_ROWS];
    /* Two panels are two streams: what comes after them is the next two. */
    const int64_t ahead = count == 2 ? 2 * panel_bytes : AHEAD_BYTES;
    for (int r = 0; r < rows; r++) {
        x[r] = v.x + r * v.x_stride;
        for (int p = 0; p < 2 * count; p++)
            sum[r][p] = v.resume ? _mm256_loadu_ps(v.out + r * v.out_stride + p * LANES) : _mm256_setzero_ps();
    }
    four_bit_masks masks = hold_masks(kind);
    for (int record = 0; record < records; record++) {
        const uint8_t *at[2] = {panel, panel + panel_bytes};
        scales s[2];
        for (int p = 0; p < count; p++) {
            s[p] = read_scales(kind, at[p]);
            for (int line = 0; line < bytes_of(kind); line += 64)
                _mm_prefetch((const char *)at[p] + ahead + line, _MM_HINT_T0);
        }
        for (int chunk = 0; chunk < inputs_of(kind) / 8; chunk++) {
#pragma GCC unroll 8
            for (int step = 0; step < 8; step++) {
                __m256i stored[2 * 2];
                __m256 w[2 * 2];
                for (int p = 0; p < 2 * count; p++) {
                    stored[p] = stored_lanes(kind, at[p / 2], masks, p % 2, chunk, step);
                    HOLD(stored[p]);
                }
                for (int p = 0; p < 2 * count; p++) {
                    w[p] = float_lanes(kind, stored[p]);
                    HOLD(w[p]);
                }
                for (int p = 0; p < 2 * count; p++) {
                    w[p] = scaled_lanes(kind, w[p], &s[p / 2], p % 2, step);
                    HOLD(w[p]);
                }
                for (int r = 0; r < rows; r++) {
                    __m256 value = _mm256_broadcast_ss(x[r] + step);
                    for (int p = 0; p < 2 * count; p++) {
                        sum[r][p] = _mm256_fmadd_ps(value, w[p], sum[r][p]);
                        HOLD(sum[r][p]);
                    }
                }
                if (keep)
                    for (int p = 0; p < 2; p++) _mm256_store_ps(kept + step * PANEL + p * LANES, w[p]);
            }
            for (int r = 0; r < rows; r++) x[r] += 8;
            if (keep) kept += 8 * PANEL;
        }
        panel += bytes_of(kind);
    }
    for (int r = 0; r < rows; r++)
        for (int p = 0; p < 2 * count; p++) _mm256_storeu_ps(v.out + r * v.out_stride + p * LANES, sum[r][p]);
}

/* `rows` rows by one panel of floats. */
INLINE void tile(int rows, const float *w, int inputs, rows_view v) {
    __m256 sum[TILE_ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int p = 0; p < 2; p++)
            sum[r][p] = v.resume ? _mm256_loadu_ps(v.out + r * v.out_stride + p * LANES) : _mm256_setzero_ps();
    const float *x = v.x;
    for (int k = 0; k < inputs; k += 4, x += 4) {
#pragma GCC unroll 4
        for (int step = 0; step < 4; step++, w += PANEL) {
            __m256 left = _mm256_loadu_ps(w), right = _mm256_loadu_ps(w + LANES);
            for (int r = 0; r < rows; r++) {
                __m256 value = _mm256_broadcast_ss(x + r * v.x_stride + step);
                sum[r][0] = _mm256_fmadd_ps(value, left, sum[r][0]);
                sum[r][1] = _mm256_fmadd_ps(value, right, sum[r][1]);
            }
        }
    }
    for (int r = 0; r < rows; r++)
        for (int p = 0; p < 2; p++) _mm256_storeu_ps(v.out + r * v.out_stride + p * LANES, sum[r][p]);
}

static void tiles(int rows, const float *w, int inputs, rows_view v) {
    int groups = (rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int g = 0; g < groups; g++) {
        int from = rows * g / groups, size = rows * (g + 1) / groups - from;
        rows_view part = v;
        part.x += from * v.x_stride;
        part.out += from * v.out_stride;
        switch (size) {
            case 1: tile(1, w, inputs, part); break;
            case 2: tile(2, w, inputs, part); break;
            case 3: tile(3, w, inputs, part); break;
            case 4: tile(4, w, inputs, part); break;
            case 5: tile(5, w, inputs, part); break;
            default: tile(6, w, inputs, part); break;
        }
    }
}

INLINE void few_rows(int kind, const matrix *weight, int first, int count, int rows, rows_view v) {
    const uint8_t *panel = weight->data + first * weight->panel_bytes;
    int together = rows <= 2 ? 2 : 1;
    while (count > 0) {
        int now = count < together ? count : together;
#define CASE(R) \
    case R: fused(kind, R, 1, 0, panel, weight->panel_bytes, weight->records, v, 0); break;
        if (now == 2 && rows == 1)
            fused(kind, 1, 2, 0, panel, weight->panel_bytes, weight->records, v, 0);
        else if (now == 2)
            fused(kind, 2, 2, 0, panel, weight->panel_bytes, weight->records, v, 0);
        else
            switch (rows) {
                CASE(1)
                CASE(2)
                CASE(3)
                CASE(4)
                default:
                CASE(5)
            }
#undef CASE
        panel += now * weight->panel_bytes;
        v.out += now * PANEL;
        count -= now;
    }
}

INLINE void many_rows(int kind, const matrix *weight, int first, int count, int rows, rows_view v, float *kept) {
    const int step = BLOCK_INPUTS / inputs_of(kind), begin = rows == 6 ? 3 : 4;
    for (int p = 0; p < count; p++, v.out += PANEL) {
        const uint8_t *panel = weight->data + (first + p) * weight->panel_bytes;
        rows_view now = v;
        for (int record = 0; record < weight->records; record += step) {
            int records = weight->records - record < step ? weight->records - record : step;
            int inputs = records * inputs_of(kind);
            now.resume = record > 0;
            if (kind == F32) {
                tiles(rows, (const float *)panel, inputs, now);
            } else {
                if (begin == 3)
                    fused(kind, 3, 1, 1, panel, 0, records, now, kept);
                else
                    fused(kind, 4, 1, 1, panel, 0, records, now, kept);
                rows_view rest = now;
                rest.x += begin * v.x_stride;
                rest.out += begin * v.out_stride;
                tiles(rows - begin, kept, inputs, rest);
            }
            panel += records * bytes_of(kind);
            now.x += inputs;
        }
    }
}

#define MULTIPLY(KIND)                                                                                            \
    static __attribute__((noinline)) void multiply_##KIND(const matrix *weight, int first, int count, int rows,   \
                                                          rows_view v, float *kept) {                             \
        if (rows <= FUSED_ROWS)                                                                                   \
            few_rows(KIND, weight, first, count, rows, v);                                                        \
        else                                                                                                      \
            many_rows(KIND, weight, first, count, rows, v, kept);                                                 \
    }
MULTIPLY(F32)
MULTIPLY(F16)
MULTIPLY(BF16)
MULTIPLY(Q4H)
MULTIPLY(Q4S)
MULTIPLY(Q8H)
MULTIPLY(Q8HM)
MULTIPLY(Q8SM)
MULTIPLY(Q8S)

void multiply(const matrix *weight, int first, int count, const float *x, int64_t x_stride, int rows, float *out,
              int64_t out_stride, float *kept) {
    static void (*const by_kind[KINDS])(const matrix *, int, int, int, rows_view, float *) = {
        multiply_F32, multiply_F16, multiply_BF16, multiply_Q4H, multiply_Q4S,
        multiply_Q8H, multiply_Q8HM, multiply_Q8SM, multiply_Q8S,
    };
    rows_view v = {x, x_stride, out, out_stride, 0};
    by_kind[weight->kind](weight, first, count, rows, v, kept);
}

INLINE void row_of(int kind, const matrix *weight, int row, float *out) {
    const uint8_t *at = weight->data + row / PANEL * weight->panel_bytes;
    int half = row % PANEL / LANES, lane = row % LANES;
    float lanes[LANES];
    for (int record = 0; record < weight->records; record++, at += bytes_of(kind)) {
        scales s = read_scales(kind, at);
        for (int k = 0; k < inputs_of(kind); k++) {
            __m256 value = float_lanes(kind, stored_lanes(kind, at, hold_masks(kind), half, k / 8, k % 8));
            _mm256_storeu_ps(lanes, scaled_lanes(kind, value, &s, half, k % 8));
            int input = record * inputs_of(kind) + k;
            if (input < weight->inputs) out[input] = lanes[lane];
        }
    }
}

void matrix_row(const matrix *weight, int row, float *out) {
    switch (weight->kind) {
        case F32: row_of(F32, weight, row, out); break;
        case F16: row_of(F16, weight, row, out); break;
        case BF16: row_of(BF16, weight, row, out); break;
        case Q4H: row_of(Q4H, weight, row, out); break;
        case Q4S: row_of(Q4S, weight, row, out); break;
        case Q8H: row_of(Q8H, weight, row, out); break;
        case Q8HM: row_of(Q8HM, weight, row, out); break;
        case Q8SM: row_of(Q8SM, weight, row, out); break;
        default: row_of(Q8S, weight, row, out); break;
    }
}
