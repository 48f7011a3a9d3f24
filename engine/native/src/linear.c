/* The phases of a step that multiply by weights, each with what is done to its outputs while they are near. */
#include <string.h>

#include "model.h"
#include "rows.h"

#define UNIT_PANELS 2 /* panels of the smallest piece of work; one row wants two at a time */
#define UNIT (UNIT_PANELS * PANEL)

static int least(int a, int b) { return a < b ? a : b; }
static int blocks_of(int rows) { return (rows + BLOCK_ROWS - 1) / BLOCK_ROWS; }
static int units_of(const matrix *weight) { return (weight->panels + UNIT_PANELS - 1) / UNIT_PANELS; }

static const native_layer *layer_of(const native_model *m, int layer) { return m->weights.layers + layer; }

static int units_in(const native_model *m, int layer, int phase) {
    const native_layer *l = layer_of(m, layer);
    switch (phase) {
        case PROJECT: return m->shape.heads + 2 * m->shape.kv_heads;
        case OUTPUT: return units_of(&l->output);
        case GATE_UP: return units_of(&l->gate);
        default: return units_of(&l->down);
    }
}

int linear_items(const native_model *m, int layer, int phase) {
    return blocks_of(m->step->rows) * units_in(m, layer, phase);
}

int head_items(const native_model *m) { return blocks_of(m->step->samples) * units_of(&m->weights.head); }

/* Rows [row, row + rows) of the stream under a norm: made by the norm phase, or here when they are few. */
static const float *normed_rows(native_model *m, int row, const float *gain, int64_t phase, int worker) {
    if (m->step->rows > FEW_ROWS) return m->normed + (int64_t)row * m->wide;
    worker_scratch *mine = &m->workers[worker];
    if (mine->normed_for != phase) {
        for (int r = 0; r < m->step->rows; r++)
            rms_norm(m->stream + (int64_t)r * m->wide, gain, m->shape.norm_eps, m->shape.hidden, m->wide,
                     mine->normed + (int64_t)r * m->wide);
        mine->normed_for = phase;
    }
    return mine->normed;
}

static int64_t phase_number(const native_model *m, int layer, int phase) {
    return m->phases_before + (int64_t)layer * LAYER_PHASES + phase;
}

/* A head of queries, keys or values of some rows: bias, norm, turn; queries stay, keys and values are stored. */
static void use_head(native_model *m, int layer, int head, int row, int rows, float *tile) {
    const native_layer *l = layer_of(m, layer);
    const int n = m->shape.head_dim, heads = m->shape.heads, kv_heads = m->shape.kv_heads;
    const int is_query = head < heads, is_key = !is_query && head < heads + kv_heads;
    const int own = is_query ? head : is_key ? head - heads : head - heads - kv_heads;
    const float *bias = is_query ? l->query_bias : is_key ? l->key_bias : l->value_bias;
    const float *norm = is_query ? l->query_norm : is_key ? l->key_norm : NULL;
    const kv_layer kv = layer_kv(m, layer);
    for (int r = 0; r < rows; r++) {
        float *x = tile + (int64_t)r * n;
        const native_segment *s = m->step->segment + m->segment_of[row + r];
        const int position = s->start + row + r - s->row;
        if (bias) add_row(x, bias + own * n, n);
        if (norm) rms_norm(x, norm, m->shape.norm_eps, n, n, x);
        if (is_query || is_key) rotate(x, l->rotary + (int64_t)position * n, n);
        if (is_query) {
            scale_row(x, m->shape.query_scale, n);
            memcpy(m->query + ((int64_t)(row + r) * heads + own) * n, x, sizeof(float) * (size_t)n);
        } else if (position >= s->write_from) {
            const int32_t *table = m->step->tables[l->group] + s->table;
            int64_t slot = (int64_t)table[position / kv.block_size] * kv.block_size + position % kv.block_size;
            kv_store(&kv, slot, head - heads, x);
        }
    }
}

static void project(native_model *m, int layer, int unit, int row, int rows, int worker) {
    const native_layer *l = layer_of(m, layer);
    const int n = m->shape.head_dim, heads = m->shape.heads, kv_heads = m->shape.kv_heads;
    const matrix *weight = unit < heads ? &l->query : unit < heads + kv_heads ? &l->key : &l->value;
    const int own = unit < heads ? unit : unit < heads + kv_heads ? unit - heads : unit - heads - kv_heads;
    worker_scratch *mine = &m->workers[worker];
    const float *x = normed_rows(m, row, l->attention_norm, phase_number(m, layer, PROJECT), worker);
    multiply(weight, own * (n / PANEL), n / PANEL, x, m->wide, rows, mine->tile, n, mine->kept);
    use_head(m, layer, unit, row, rows, mine->tile);
}

/* Where the outputs of a branch go: onto the stream, or beside it when they are normalised first. */
static void use_branch(native_model *m, int beside, int at, int outputs, int row, int rows, const float *tile,
                       int64_t stride) {
    const int wanted = least(outputs, m->shape.hidden - at);
    for (int r = 0; r < rows; r++) {
        const float *from = tile + r * stride;
        if (beside)
            memcpy(m->branch + (int64_t)(row + r) * m->wide + at, from, sizeof(float) * (size_t)wanted);
        else
            add_row(m->stream + (int64_t)(row + r) * m->wide + at, from, wanted);
    }
}

static int panels_from(const matrix *weight, int unit, int units) {
    return least(units * UNIT_PANELS, weight->panels - unit * UNIT_PANELS);
}

static void branch(native_model *m, int layer, int phase, int unit, int units, int row, int rows, int worker) {
    const native_layer *l = layer_of(m, layer);
    const matrix *weight = phase == OUTPUT ? &l->output : &l->down;
    const int64_t width = phase == OUTPUT ? (int64_t)m->shape.heads * m->shape.head_dim : m->feed;
    const float *x = (phase == OUTPUT ? m->mixed : m->gated) + row * width;
    const int beside = (phase == OUTPUT ? l->post_attention_norm : l->post_feed_norm) != NULL;
    const int panels = panels_from(weight, unit, units), outputs = panels * PANEL;
    worker_scratch *mine = &m->workers[worker];
    multiply(weight, unit * UNIT_PANELS, panels, x, width, rows, mine->tile, outputs, mine->kept);
    use_branch(m, beside, unit * UNIT, outputs, row, rows, mine->tile, outputs);
}

static void gate_up(native_model *m, int layer, int unit, int units, int row, int rows, int worker) {
    const native_layer *l = layer_of(m, layer);
    const int panels = panels_from(&l->gate, unit, units), outputs = panels * PANEL;
    worker_scratch *mine = &m->workers[worker];
    float *gate = mine->tile, *up = mine->tile + (int64_t)rows * outputs;
    const float *x = normed_rows(m, row, l->feed_norm, phase_number(m, layer, GATE_UP), worker);
    multiply(&l->gate, unit * UNIT_PANELS, panels, x, m->wide, rows, gate, outputs, mine->kept);
    multiply(&l->up, unit * UNIT_PANELS, panels, x, m->wide, rows, up, outputs, mine->kept);
    for (int r = 0; r < rows; r++)
        gated(m->shape.activation, gate + r * outputs, up + r * outputs, outputs,
              m->gated + (int64_t)(row + r) * m->feed + unit * UNIT);
}

void run_linear(native_model *m, int layer, int phase, int from, int until, int worker) {
    const int all = m->step->rows, blocks = blocks_of(all), units = units_in(m, layer, phase);
    while (from < until) {
        const int block = from / units, unit = from % units;
        const int row = (int)((int64_t)all * block / blocks), rows = (int)((int64_t)all * (block + 1) / blocks) - row;
        int now = 1;
        if (phase == PROJECT) {
            project(m, layer, unit, row, rows, worker);
        } else {
            now = least(least(until - from, units - unit), rows <= FEW_ROWS ? TILE_OUTPUTS / UNIT : 1);
            if (phase == GATE_UP)
                gate_up(m, layer, unit, now, row, rows, worker);
            else
                branch(m, layer, phase, unit, now, row, rows, worker);
        }
        from += now;
    }
}

void run_head(native_model *m, int from, int until, int worker) {
    const matrix *weight = &m->weights.head;
    const int all = m->step->samples, blocks = blocks_of(all), units = units_of(weight);
    worker_scratch *mine = &m->workers[worker];
    while (from < until) {
        const int block = from / units, unit = from % units;
        const int row = (int)((int64_t)all * block / blocks), rows = (int)((int64_t)all * (block + 1) / blocks) - row;
        const int now = least(least(until - from, units - unit), rows <= FEW_ROWS ? TILE_OUTPUTS / UNIT : 1);
        const int panels = panels_from(weight, unit, now), outputs = panels * PANEL, at = unit * UNIT;
        multiply(weight, unit * UNIT_PANELS, panels, m->normed + (int64_t)row * m->wide, m->wide, rows, mine->tile,
                 outputs, mine->kept);
        for (int r = 0; r < rows; r++)
            memcpy(m->step->logits + (int64_t)(row + r) * m->shape.vocab + at, mine->tile + r * outputs,
                   sizeof(float) * (size_t)least(outputs, m->shape.vocab - at));
        from += now;
    }
}
