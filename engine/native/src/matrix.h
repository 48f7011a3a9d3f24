/* Linear weights in panels of sixteen outputs, and what multiplies by them.

   A panel holds its outputs' weights input by input, cut into records. A record covers a fixed number of inputs and
   starts with the scales of its sixteen outputs:

   kind      inputs  scale       least value  weights
   F32       8       -           -            16 floats per input
   F16, BF16 8       -           -            16 halves per input
   Q4H       32      16 fp16     16 fp16      per 8 inputs 16 words of 32 bits: output j's input i in bits 4i..4i+3
   Q4S       32      16 fp32     16 fp32      same
   Q8H       32      16 fp16     -            16 signed bytes per input
   Q8HM      32      16 fp16     16 fp16      same
   Q8SM      32      16 fp32     16 fp32      same
   Q8S       16      16 fp32     -            same

   A weight is q * scale + least, rounded once. */
#ifndef NATIVE_MATRIX_H
#define NATIVE_MATRIX_H

#include <stdint.h>

#define PANEL 16
#define INPUT_GRAIN 32 /* rows of activations are padded with zeros to a multiple of this */

enum kind { F32, F16, BF16, Q4H, Q4S, Q8H, Q8HM, Q8SM, Q8S, KINDS };

typedef struct {
    int32_t kind;
    int32_t outputs; /* without padding */
    int32_t inputs;  /* without padding */
    int32_t panels;
    int32_t records; /* in a panel */
    int32_t reserved;
    int64_t panel_bytes;
    const uint8_t *data;
} matrix;

/* Inputs and bytes of one record of a kind. */
int record_inputs(int kind);
int record_bytes(int kind);

/* out[r][16 p + j] = row r of x times output j of panel first + p, for p < count.
   Each sum runs over the inputs in ascending order, one fused multiply-add at a time, whatever `rows` and `count` are.
   x: rows padded with zeros to a multiple of INPUT_GRAIN inputs. kept: KEPT_FLOATS floats of scratch. */
void multiply(const matrix *weight, int first, int count, const float *x, int64_t x_stride, int rows, float *out,
              int64_t out_stride, float *kept);

#define BLOCK_INPUTS 192
#define KEPT_FLOATS (BLOCK_INPUTS * PANEL)

/* Write output `row` of the matrix as floats. */
void matrix_row(const matrix *weight, int row, float *out);

#endif
