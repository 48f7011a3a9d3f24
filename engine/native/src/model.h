/* The model's own view of itself, shared by the files that make up a step. */
#ifndef NATIVE_MODEL_H
#define NATIVE_MODEL_H

#include "native.h"
#include "team.h"

#define FEW_ROWS 6        /* so few are normalised by each worker for itself instead of in a phase of their own */
#define BLOCK_ROWS 64     /* rows that go through a panel together */
#define TILE_OUTPUTS 512  /* outputs computed before they are used */
#define ATTENTION_ROWS 32 /* of a sequence that attend together */
#define ITEMS_PER_THREAD 4 /* of attention, below which the keys of single rows are split */

/* Scratch of one worker. */
typedef struct {
    float *kept;      /* KEPT_FLOATS */
    float *tile;      /* TILE_FLOATS */
    float *normed;    /* FEW_ROWS rows of `wide` */
    float *attention; /* attention_scratch */
    int64_t normed_for; /* the phase `normed` was made in, over all steps */
} worker_scratch;

/* A run of work items of the attention phase: rows of a segment, all KV heads. */
typedef struct {
    int32_t segment, row, rows; /* row: within the segment */
    int32_t spans;              /* into which the tiles are split; 1 unless rows is 1 */
    int32_t first_item;
    int32_t first_pending;
    int64_t parts;
} attention_piece;

struct native_model {
    native_shape shape;
    native_weights weights;
    native_kv *kv;
    team *team;
    worker_scratch *workers;
    int wide; /* floats in a row of hidden size, padded */
    int feed; /* the same for the feed-forward */
    int64_t phases_before; /* this step */

    int capacity;       /* rows the following have room for */
    float *stream;      /* [rows][wide] residual stream */
    float *normed;      /* [rows][wide] */
    float *branch;      /* [rows][wide] output of a branch that is normalised before it is added */
    float *query;       /* [rows][heads * head_dim] */
    float *mixed;       /* same, attention's output */
    float *gated;       /* [rows][feed] */
    int32_t *segment_of; /* [rows] */

    attention_piece *pieces;
    int piece_count, item_count;
    int piece_capacity;
    float *parts;
    int64_t part_capacity;
    int *pending; /* spans not finished, by piece and KV head */

    const native_step *step;
};

/* Phases of a layer, in order. */
enum {
    NORM_ATTENTION,
    PROJECT,
    ATTEND,
    OUTPUT,
    NORM_FEED,
    GATE_UP,
    DOWN,
    POST_FEED,
    LAYER_PHASES
};

/* Items [*from, *until) of `items` that chunk `chunk` covers; long ones first, short ones to even out the end. */
int span_count(int items, int threads);
void span_of(int items, int threads, int chunk, int *from, int *until);

/* Attention phase: lay out the pieces (same for each layer but for its window), number of items, one item. */
int plan_attention(native_model *m, int layer);
void run_attention(native_model *m, int layer, int item, int worker);

kv_layer layer_kv(const native_model *m, int layer);

/* Phases of linear layers. */
int linear_items(const native_model *m, int layer, int phase);
void run_linear(native_model *m, int layer, int phase, int from, int until, int worker);
int head_items(const native_model *m);
void run_head(native_model *m, int from, int until, int worker);

/* Phases of rows: look up embeddings, normalise. */
void run_rows(native_model *m, int layer, int phase, int from, int until);
void run_embedding(native_model *m, int from, int until);
void run_last_norm(native_model *m, int from, int until);

program step_program(native_model *m);

#endif
