/* The model's memory, and the library's surface. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "simd.h"

#define ALIGNMENT 64
#define TILE_FLOATS (BLOCK_ROWS * 256)

static int padded(int n) { return (n + INPUT_GRAIN - 1) / INPUT_GRAIN * INPUT_GRAIN; }

static void *aligned(int64_t bytes) {
    void *memory = aligned_alloc(ALIGNMENT, (size_t)((bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT));
    if (memory) memset(memory, 0, (size_t)bytes);
    return memory;
}

static float *floats(int64_t count) { return aligned(count * (int64_t)sizeof(float)); }

static void free_rows(native_model *m) {
    free(m->stream);
    free(m->normed);
    free(m->branch);
    free(m->query);
    free(m->mixed);
    free(m->gated);
    free(m->segment_of);
    free(m->pieces);
    free(m->pending);
    m->stream = m->normed = m->branch = m->query = m->mixed = m->gated = NULL;
    m->segment_of = NULL;
    m->pieces = NULL;
    m->pending = NULL;
    m->capacity = 0;
}

static int make_room(native_model *m, int rows) {
    if (rows <= m->capacity) return 1;
    free_rows(m);
    const int64_t heads = (int64_t)m->shape.heads * m->shape.head_dim;
    m->stream = floats((int64_t)rows * m->wide);
    m->normed = floats((int64_t)rows * m->wide);
    m->branch = floats((int64_t)rows * m->wide);
    m->query = floats(rows * heads);
    m->mixed = floats(rows * heads);
    m->gated = floats((int64_t)rows * m->feed);
    m->segment_of = aligned(rows * (int64_t)sizeof(int32_t));
    m->pieces = aligned(rows * (int64_t)sizeof(attention_piece));
    m->pending = aligned((int64_t)rows * m->shape.kv_heads * (int64_t)sizeof(int));
    if (m->stream && m->normed && m->branch && m->query && m->mixed && m->gated && m->segment_of && m->pieces &&
        m->pending) {
        m->capacity = rows;
        return 1;
    }
    free_rows(m);
    return 0;
}

/* Room for the parts of rows whose keys are split: no more rows than there are items wanted. */
static int make_part_room(native_model *m) {
    int64_t tiles = 0, rows = m->step->rows, most = ITEMS_PER_THREAD * m->shape.threads;
    for (int s = 0; s < m->step->segments; s++) {
        const int64_t seen = (m->step->segment[s].start + m->step->segment[s].count - 1) / TILE_KEYS + 1;
        tiles = seen > tiles ? seen : tiles;
    }
    const int64_t wanted = (rows < most ? rows : most) * tiles * m->shape.heads * part_floats(m->shape.head_dim);
    if (wanted <= m->part_capacity) return 1;
    free(m->parts);
    m->parts = floats(wanted);
    m->part_capacity = m->parts ? wanted : 0;
    return m->parts != NULL;
}

static int make_worker(const native_model *m, worker_scratch *w) {
    const int shared = m->shape.heads / m->shape.kv_heads;
    w->kept = floats(KEPT_FLOATS);
    w->tile = floats(TILE_FLOATS);
    w->normed = floats((int64_t)FEW_ROWS * m->wide);
    w->attention = floats(attention_scratch(ATTENTION_ROWS, shared, m->shape.head_dim));
    w->normed_for = -1;
    return w->kept && w->tile && w->normed && w->attention;
}

static int copy_model(native_model *m, const native_weights *weights, const native_kv *kv) {
    const size_t layers = (size_t)m->shape.layers, groups = (size_t)m->shape.groups;
    native_layer *own = malloc(layers * sizeof *own);
    m->kv = malloc(groups * sizeof *m->kv);
    m->weights = *weights;
    m->weights.layers = own;
    if (!own || !m->kv) return 0;
    memcpy(own, weights->layers, layers * sizeof *own);
    memcpy(m->kv, kv, groups * sizeof *kv);
    return 1;
}

native_model *native_open(const native_shape *shape, const native_weights *weights, const native_kv *kv) {
    native_model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->shape = *shape;
    m->wide = padded(shape->hidden);
    m->feed = padded(shape->intermediate);
    int made = copy_model(m, weights, kv);
    m->workers = calloc((size_t)shape->threads, sizeof *m->workers);
    for (int w = 0; made && m->workers && w < shape->threads; w++) made = make_worker(m, &m->workers[w]);
    if (made && m->workers) m->team = team_open(shape->threads);
    if (m->team) return m;
    native_close(m);
    return NULL;
}

int native_run(native_model *m, const native_step *step) {
    m->step = step;
    if (!make_room(m, step->rows) || !make_part_room(m)) return 1;
    for (int s = 0; s < step->segments; s++)
        for (int r = 0; r < step->segment[s].count; r++) m->segment_of[step->segment[s].row + r] = s;
    const program p = step_program(m);
    team_run(m->team, p);
    m->phases_before += p.phases;
    return 0;
}

void native_close(native_model *m) {
    if (!m) return;
    team_close(m->team);
    free_rows(m);
    free(m->parts);
    for (int w = 0; m->workers && w < m->shape.threads; w++) {
        free(m->workers[w].kept);
        free(m->workers[w].tile);
        free(m->workers[w].normed);
        free(m->workers[w].attention);
    }
    free(m->workers);
    free((void *)m->weights.layers);
    free(m->kv);
    free(m);
}

int native_version(void) { return NATIVE_VERSION; }

int native_sizes(int *out, int count) {
    const int sizes[] = {sizeof(native_shape), sizeof(matrix),         sizeof(native_layer), sizeof(native_weights),
                         sizeof(native_kv),    sizeof(native_segment), sizeof(native_step)};
    const int known = (int)(sizeof sizes / sizeof *sizes);
    for (int i = 0; i < count && i < known; i++) out[i] = sizes[i];
    return known;
}

void native_dense(const matrix *weight, float *out) {
    for (int row = 0; row < weight->outputs; row++) matrix_row(weight, row, out + (int64_t)row * weight->inputs);
}

int native_multiply(const matrix *weight, const float *x, int rows, float *out) {
    float *kept = floats(KEPT_FLOATS);
    if (!kept) return 1;
    multiply(weight, 0, weight->panels, x, padded(weight->inputs), rows, out, (int64_t)weight->panels * PANEL, kept);
    free(kept);
    return 0;
}

void native_exp(const float *x, int count, float *out) {
    for (int i = 0; i + LANES <= count; i += LANES) _mm256_storeu_ps(out + i, exp_lanes(_mm256_loadu_ps(x + i)));
}
