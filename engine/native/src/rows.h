/* What is done to one row of activations. n is a multiple of 8 (pad with zeros) unless said otherwise. */
#ifndef NATIVE_ROWS_H
#define NATIVE_ROWS_H

#include <stdint.h>

enum activation { SILU, GELU_TANH };

/* out = x / rms(x) * gain; `width` is the count in the mean, n the padded count. out may be x. */
void rms_norm(const float *x, const float *gain, float eps, int width, int n, float *out);

/* Turn pairs (x[2i], x[2i + 1]) by the complex numbers (table[2i], table[2i + 1]). */
void rotate(float *x, const float *table, int n);

/* out = activation(gate) * up. */
void gated(int activation, const float *gate, const float *up, int n, float *out);

/* x += y; x *= a. */
void add_row(float *x, const float *y, int n);
void scale_row(float *x, float a, int n);

/* Store as halves or bfloats, to nearest even; as bytes that stand for q * the scale returned, q in [-127, 127]. */
void store_halves(const float *x, int n, uint16_t *out);
void store_bfloats(const float *x, int n, uint16_t *out);
float store_bytes(const float *x, int n, int8_t *out);

#endif
