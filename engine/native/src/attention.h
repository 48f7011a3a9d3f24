/* Attention of a few query heads to the keys and values in a paged pool.

   The keys a row sees are walked in tiles of TILE_KEYS absolute positions. Each tile gives a part of its own (greatest
   score, sum of exponentials, weighted sum of values); parts are merged in the order of the tiles. So what a row gets
   depends on nothing but its query and its keys: not on rows computed with it, nor on who computed which tiles. */
#ifndef NATIVE_ATTENTION_H
#define NATIVE_ATTENTION_H

#include <stdint.h>

#define TILE_KEYS 64

enum kv_kind { KV_F32, KV_F16, KV_BF16, KV_I8, KV_KINDS };

/* One layer of a KV pool. Slot s, head h: keys at (s * 2 kv_heads + h) * head_dim, values kv_heads heads further on. */
typedef struct {
    int32_t kind;
    int32_t kv_heads;
    int32_t head_dim; /* a multiple of 16 */
    int32_t block_size;
    uint8_t *values;
    float *scales; /* KV_I8 only, one for each slot and head of keys and values */
} kv_layer;

/* Store one head of keys (head < kv_heads) or values (the rest) of a token. */
void kv_store(const kv_layer *kv, int64_t slot, int head, const float *x);

/* The rows of one sequence that attend together, with one KV head. */
typedef struct {
    const kv_layer *kv;
    const int32_t *table; /* blocks by position / block_size */
    int head;             /* of keys */
    int heads;            /* query heads that share it */
    int rows;
    int64_t position; /* of the first row; row i is at position + i */
    int64_t window;   /* keys a row sees, its own included; 0 for all */
    const float *query; /* row r, head g: query[r * stride + g * head_dim], scaled already */
    float *out;         /* same places */
    int64_t stride;
} attention;

/* The tiles that some row of `a` sees: from *first up to, not including, the result. */
int attention_tiles(const attention *a, int *first);

/* Floats of scratch for attend, and of one part. */
int64_t attention_scratch(int rows, int heads, int head_dim);
int64_t part_floats(int head_dim);

/* Attend to all tiles and write `out`. */
void attend(const attention *a, float *scratch);

/* The same in two steps, for one row: make the parts of some tiles, parts[(tile - first) * heads + g]; merge them. */
void attend_tiles(const attention *a, int from, int until, float *parts, float *scratch);
void attend_merge(const attention *a, int tiles, const float *parts, float *scratch);

#endif
