#include "rows.h"

#include <math.h>

#include "simd.h"

void rms_norm(const float *x, const float *gain, float eps, int width, int n, float *out) {
    __m256 squares[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int i = 0; i < n; i += 4 * LANES)
        for (int part = 0; part < 4 && i + part * LANES < n; part++) {
            __m256 v = _mm256_loadu_ps(x + i + part * LANES);
            squares[part] = _mm256_fmadd_ps(v, v, squares[part]);
        }
    float sum = lanes_sum(_mm256_add_ps(_mm256_add_ps(squares[0], squares[1]),
                                        _mm256_add_ps(squares[2], squares[3])));
    __m256 factor = _mm256_set1_ps(1.0f / sqrtf(sum / (float)width + eps));
    for (int i = 0; i < n; i += LANES)
        _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor),
                                                _mm256_loadu_ps(gain + i)));
}

void rotate(float *x, const float *table, int n) {
    for (int i = 0; i < n; i += LANES) {
        __m256 v = _mm256_loadu_ps(x + i), turn = _mm256_loadu_ps(table + i);
        __m256 swapped = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), _mm256_movehdup_ps(turn));
        _mm256_storeu_ps(x + i, _mm256_fmaddsub_ps(v, _mm256_moveldup_ps(turn), swapped));
    }
}

void gated(int activation, const float *gate, const float *up, int n, float *out) {
    const __m256 one = _mm256_set1_ps(1.0f), zero = _mm256_setzero_ps();
    for (int i = 0; i < n; i += LANES) {
        __m256 g = _mm256_loadu_ps(gate + i), power = g;
        if (activation == GELU_TANH) { /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) */
            __m256 cube = _mm256_mul_ps(_mm256_mul_ps(g, g), g);
            __m256 inner = _mm256_fmadd_ps(cube, _mm256_set1_ps(0.044715f), g);
            power = _mm256_mul_ps(inner, _mm256_set1_ps(1.5957691216f));
        }
        __m256 share = _mm256_div_ps(g, _mm256_add_ps(one, exp_lanes(_mm256_sub_ps(zero, power))));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(share, _mm256_loadu_ps(up + i)));
    }
}

void add_row(float *x, const float *y, int n) {
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    for (; i < n; i++) x[i] += y[i];
}

void scale_row(float *x, float a, int n) {
    for (int i = 0; i < n; i++) x[i] *= a;
}

void store_halves(const float *x, int n, uint16_t *out) {
    for (int i = 0; i < n; i += LANES)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

void store_bfloats(const float *x, int n, uint16_t *out) {
    const __m256i most = _mm256_set1_epi32(0x7fff), one = _mm256_set1_epi32(1), quiet = _mm256_set1_epi32(0x7fc0);
    for (int i = 0; i < n; i += LANES) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m256i bits = _mm256_castps_si256(v);
        __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
        __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(most, odd)), 16);
        rounded = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
        __m128i low = _mm256_castsi256_si128(rounded), high = _mm256_extracti128_si256(rounded, 1);
        _mm_storeu_si128((__m128i *)(out + i), _mm_packus_epi32(low, high));
    }
}

float store_bytes(const float *x, int n, int8_t *out) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 most = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
    for (int i = 0; i < n; i += LANES) {
        __m256 size = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i));
        most = _mm256_max_ps(size, most);
        odd = _mm256_or_ps(odd, _mm256_cmp_ps(size, size, _CMP_UNORD_Q));
    }
    float scale = _mm256_movemask_ps(odd) ? NAN : lanes_max(most) / 127.0f;
    const __m256 divisor = _mm256_set1_ps(scale > 0.0f ? scale : 1.0f);
    for (int i = 0; i < n; i += LANES) {
        __m256i q = _mm256_cvtps_epi32(_mm256_div_ps(_mm256_loadu_ps(x + i), divisor));
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
        _mm_storel_epi64((__m128i *)(out + i), _mm_packs_epi16(words, words));
    }
    return scale;
}
