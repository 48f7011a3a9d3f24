/* The attention phase: which rows attend together, and who merges what was split. */
#include <stddef.h>

#include "model.h"

#define FEWEST_ROWS 4

kv_layer layer_kv(const native_model *m, int layer) {
    const native_layer *l = m->weights.layers + layer;
    const native_kv *kv = m->kv + l->group;
    return (kv_layer){
        .kind = kv->kind,
        .kv_heads = m->shape.kv_heads,
        .head_dim = m->shape.head_dim,
        .block_size = m->shape.block_size,
        .values = kv->values + l->group_layer * kv->layer_bytes,
        .scales = kv->scales ? kv->scales + l->group_layer * kv->layer_scales : NULL,
    };
}

static attention attention_of(native_model *m, int layer, const kv_layer *kv, const attention_piece *p, int head) {
    const native_layer *l = m->weights.layers + layer;
    const native_segment *s = m->step->segment + p->segment;
    const int shared = m->shape.heads / m->shape.kv_heads;
    const int64_t stride = (int64_t)m->shape.heads * m->shape.head_dim;
    const int64_t at = (s->row + p->row) * stride + (int64_t)head * shared * m->shape.head_dim;
    return (attention){
        .kv = kv,
        .table = m->step->tables[l->group] + s->table,
        .head = head,
        .heads = shared,
        .rows = p->rows,
        .position = s->start + p->row,
        .window = l->window,
        .query = m->query + at,
        .out = m->mixed + at,
        .stride = stride,
    };
}

/* Rows that attend together, so that there is work for everyone. */
static int rows_together(const native_model *m) {
    const int wanted = ITEMS_PER_THREAD * m->shape.threads;
    int together = ATTENTION_ROWS;
    for (; together > FEWEST_ROWS; together /= 2) {
        int pieces = 0;
        for (int s = 0; s < m->step->segments; s++) pieces += (m->step->segment[s].count + together - 1) / together;
        if (pieces * m->shape.kv_heads >= wanted) break;
    }
    return together;
}

/* Later rows come first, because they have more to look at. */
static void add_pieces(native_model *m, int segment, int together) {
    const int count = m->step->segment[segment].count, pieces = (count + together - 1) / together;
    for (int p = pieces; p-- > 0;) {
        const int row = (int)((int64_t)count * p / pieces), next = (int)((int64_t)count * (p + 1) / pieces);
        m->pieces[m->piece_count++] = (attention_piece){.segment = segment, .row = row, .rows = next - row};
    }
}

int plan_attention(native_model *m, int layer) {
    const int kv_heads = m->shape.kv_heads, wanted = ITEMS_PER_THREAD * m->shape.threads;
    const int together = rows_together(m);
    m->piece_count = m->item_count = 0;
    for (int s = 0; s < m->step->segments; s++) add_pieces(m, s, together);
    const int whole = m->piece_count * kv_heads;
    const kv_layer kv = layer_kv(m, layer);
    int pending = 0;
    int64_t parts = 0;
    for (int i = 0; i < m->piece_count; i++) {
        attention_piece *p = &m->pieces[i];
        p->spans = 1;
        p->first_item = m->item_count;
        if (p->rows == 1 && whole < wanted) {
            const attention a = attention_of(m, layer, &kv, p, 0);
            int first, tiles = attention_tiles(&a, &first) - first, spans = (wanted + whole - 1) / whole;
            p->spans = spans < tiles ? spans : tiles;
            p->first_pending = pending;
            p->parts = parts;
            parts += (int64_t)tiles * m->shape.heads * part_floats(kv.head_dim);
            for (int h = 0; h < kv_heads; h++) __atomic_store_n(&m->pending[pending++], p->spans, __ATOMIC_RELAXED);
        }
        m->item_count += p->spans * kv_heads;
    }
    return m->item_count;
}

void run_attention(native_model *m, int layer, int item, int worker) {
    const attention_piece *p = m->pieces;
    int low = 0, high = m->piece_count;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (m->pieces[middle].first_item <= item)
            low = middle;
        else
            high = middle;
    }
    p += low;
    const int head = (item - p->first_item) / p->spans, span = (item - p->first_item) % p->spans;
    const kv_layer kv = layer_kv(m, layer);
    const attention a = attention_of(m, layer, &kv, p, head);
    float *scratch = m->workers[worker].attention;
    if (p->spans == 1) {
        attend(&a, scratch);
        return;
    }
    int first, tiles = attention_tiles(&a, &first) - first;
    float *parts = m->parts + p->parts + (int64_t)tiles * head * a.heads * part_floats(kv.head_dim);
    attend_tiles(&a, first + tiles * span / p->spans, first + tiles * (span + 1) / p->spans, parts, scratch);
    if (__atomic_sub_fetch(&m->pending[p->first_pending + head], 1, __ATOMIC_ACQ_REL) == 0)
        attend_merge(&a, tiles, parts, scratch);
}
