/* What the library offers. The structures are mirrored in engine/native/library.py; sizes are checked there before
   anything gets here. Floats are IEEE fp32, rows are dense, pointers stay the caller's. */
#ifndef NATIVE_H
#define NATIVE_H

#include <stdint.h>

#include "attention.h"
#include "matrix.h"

#define NATIVE_VERSION 1
#define EXPORT __attribute__((visibility("default")))

typedef struct {
    int32_t hidden, heads, kv_heads, head_dim, intermediate, vocab, layers, groups;
    int32_t activation; /* enum activation */
    int32_t threads;
    float norm_eps, query_scale, embedding_scale;
    int32_t block_size;
} native_shape;

/* Gains and biases are padded with zeros to a multiple of INPUT_GRAIN; NULL where the model has none. */
typedef struct {
    matrix query, key, value, output, gate, up, down;
    const float *attention_norm, *feed_norm, *post_attention_norm, *post_feed_norm;
    const float *query_bias, *key_bias, *value_bias;
    const float *query_norm, *key_norm;
    const float *rotary; /* [context][head_dim], cosine and sine of each pair side by side */
    int32_t group;       /* of the KV pool */
    int32_t group_layer; /* place in the group */
    int64_t window;      /* 0: none */
} native_layer;

typedef struct {
    matrix embedding, head;
    const float *norm;
    const native_layer *layers;
} native_weights;

/* KV memory of a group: layer l is at values + l * layer_bytes, scales + l * layer_scales. */
typedef struct {
    int32_t kind; /* enum kv_kind */
    int32_t reserved;
    int64_t layer_bytes, layer_scales;
    uint8_t *values;
    float *scales;
} native_kv;

/* Rows [row, row + count) of a step belong to one sequence and are its positions from `start` on. */
typedef struct {
    int32_t row, count, start, write_from;
    int32_t table; /* where its blocks begin in each group's tables */
    int32_t reserved;
} native_segment;

typedef struct {
    int32_t rows, segments, samples, reserved;
    const int32_t *ids;
    const native_segment *segment;
    const int32_t *const *tables; /* by group */
    const int32_t *sample_rows;
    float *logits; /* [samples][vocab] */
} native_step;

typedef struct native_model native_model;

EXPORT int native_version(void);
EXPORT int native_sizes(int *out, int count);

/* NULL when memory or threads are refused. The weights and the KV memory must outlive the model. */
EXPORT native_model *native_open(const native_shape *shape, const native_weights *weights, const native_kv *kv);

/* Store the step's keys and values and compute its logits; 0, or 1 when memory is refused and nothing was done. */
EXPORT int native_run(native_model *model, const native_step *step);

EXPORT void native_close(native_model *model);

/* For tests: a whole matrix as floats; rows times a matrix on one thread (x as `multiply` wants it); e^x. */
EXPORT void native_dense(const matrix *weight, float *out);
EXPORT int native_multiply(const matrix *weight, const float *x, int rows, float *out);
EXPORT void native_exp(const float *x, int count, float *out);

#endif
