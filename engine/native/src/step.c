/* A step as a program of phases. */
#include <immintrin.h>
#include <string.h>

#include "model.h"
#include "rows.h"

#define SHORT_SHARE 4   /* the last quarter of a phase is cut small */
#define SHORT_CHUNKS 4  /* per thread */
#define ROWS_PER_ITEM 4 /* of the phases that only touch rows */
#define HEAD_PHASES 2   /* after the layers: last norm, output head */

static int long_items(int items, int threads) { return (items - items / SHORT_SHARE) / threads; }

int span_count(int items, int threads) {
    const int rest = items - long_items(items, threads) * threads;
    const int many = SHORT_CHUNKS * threads;
    return (long_items(items, threads) ? threads : 0) + (rest < many ? rest : many);
}

void span_of(int items, int threads, int chunk, int *from, int *until) {
    const int each = long_items(items, threads), begun = each ? threads : 0;
    if (chunk < begun) {
        *from = chunk * each;
        *until = *from + each;
        return;
    }
    const int done = begun * each, rest = items - done, many = SHORT_CHUNKS * threads;
    const int parts = rest < many ? rest : many;
    *from = done + (int)((int64_t)rest * (chunk - begun) / parts);
    *until = done + (int)((int64_t)rest * (chunk - begun + 1) / parts);
}

static int row_items(int rows) { return (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM; }

/* What is behind a row is zero again: a row of NaN that was here before has made NaN of it. */
static void clear_padding(const native_model *m, float *row) {
    memset(row + m->shape.hidden, 0, sizeof(float) * (size_t)(m->wide - m->shape.hidden));
}

void run_embedding(native_model *m, int from, int until) {
    for (int r = from; r < until; r++) {
        float *row = m->stream + (int64_t)r * m->wide;
        clear_padding(m, row);
        clear_padding(m, m->branch + (int64_t)r * m->wide);
        matrix_row(&m->weights.embedding, m->step->ids[r], row);
        if (m->shape.embedding_scale != 1.0f) scale_row(row, m->shape.embedding_scale, m->shape.hidden);
    }
}

static void normalise(const native_model *m, int row, const float *gain, float *out) {
    rms_norm(m->stream + (int64_t)row * m->wide, gain, m->shape.norm_eps, m->shape.hidden, m->wide, out);
}

void run_rows(native_model *m, int layer, int phase, int from, int until) {
    const native_layer *l = m->weights.layers + layer;
    const float *post = phase == NORM_FEED ? l->post_attention_norm : phase == POST_FEED ? l->post_feed_norm : NULL;
    const float *gain = phase == NORM_ATTENTION ? l->attention_norm : phase == NORM_FEED ? l->feed_norm : NULL;
    for (int r = from; r < until; r++) {
        const int64_t at = (int64_t)r * m->wide;
        if (post) {
            rms_norm(m->branch + at, post, m->shape.norm_eps, m->shape.hidden, m->wide, m->branch + at);
            add_row(m->stream + at, m->branch + at, m->wide);
        }
        if (gain && m->step->rows > FEW_ROWS) normalise(m, r, gain, m->normed + at);
    }
}

void run_last_norm(native_model *m, int from, int until) {
    for (int r = from; r < until; r++)
        normalise(m, m->step->sample_rows[r], m->weights.norm, m->normed + (int64_t)r * m->wide);
}

static int layer_items(native_model *m, int layer, int phase) {
    const native_layer *l = m->weights.layers + layer;
    const int rows = row_items(m->step->rows), many = m->step->rows > FEW_ROWS;
    switch (phase) {
        case NORM_ATTENTION: return many ? rows : 0;
        case NORM_FEED: return many || l->post_attention_norm ? rows : 0;
        case POST_FEED: return l->post_feed_norm ? rows : 0;
        case ATTEND: return plan_attention(m, layer);
        default: return linear_items(m, layer, phase);
    }
}

/* Items of a phase of the step: embedding, layers, last norm, head. */
static int items_of(native_model *m, int phase) {
    const int after = 1 + m->shape.layers * LAYER_PHASES;
    if (phase == 0) return row_items(m->step->rows);
    if (phase < after) return layer_items(m, (phase - 1) / LAYER_PHASES, (phase - 1) % LAYER_PHASES);
    return phase == after ? row_items(m->step->samples) : head_items(m);
}

static int is_linear(const native_model *m, int phase) {
    const int within = (phase - 1) % LAYER_PHASES, after = 1 + m->shape.layers * LAYER_PHASES;
    if (phase == 0 || phase == after) return 0;
    return phase > after || within == PROJECT || within == OUTPUT || within == GATE_UP || within == DOWN;
}

static int chunks_of(void *job, int phase) {
    native_model *m = job;
    const int items = items_of(m, phase);
    return is_linear(m, phase) ? span_count(items, m->shape.threads) : items;
}

static void run_chunk(void *job, int phase, int chunk, int worker) {
    native_model *m = job;
    const int after = 1 + m->shape.layers * LAYER_PHASES, layer = (phase - 1) / LAYER_PHASES;
    const int within = (phase - 1) % LAYER_PHASES, rows = phase == after ? m->step->samples : m->step->rows;
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(0x1f80); /* round to nearest, keep denormals, whoever this thread belongs to */
    if (is_linear(m, phase)) {
        int from, until;
        const int items = phase > after ? head_items(m) : linear_items(m, layer, within);
        span_of(items, m->shape.threads, chunk, &from, &until);
        if (phase > after)
            run_head(m, from, until, worker);
        else
            run_linear(m, layer, within, from, until, worker);
    } else if (phase > 0 && phase < after && within == ATTEND) {
        run_attention(m, layer, chunk, worker);
    } else {
        const int from = chunk * ROWS_PER_ITEM, until = from + ROWS_PER_ITEM < rows ? from + ROWS_PER_ITEM : rows;
        if (phase == 0)
            run_embedding(m, from, until);
        else if (phase == after)
            run_last_norm(m, from, until);
        else
            run_rows(m, layer, within, from, until);
    }
    _mm_setcsr(mode);
}

program step_program(native_model *m) {
    const int phases = 1 + m->shape.layers * LAYER_PHASES + HEAD_PHASES;
    return (program){.phases = phases, .chunks = chunks_of, .run = run_chunk, .job = m};
}
