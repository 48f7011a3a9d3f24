/* Vector primitives that every kernel shares, so that the same value always comes from the same operations. */
#ifndef NATIVE_SIMD_H
#define NATIVE_SIMD_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES 8

/* Make the compiler have a vector in a register here. It would otherwise repeat loads and conversions instead of
   keeping what it has, and put operations that wait for each other next to each other. */
#define HOLD(v) __asm__("" : "+x"(v))

/* Make the compiler read memory anew from here on, as an operand, instead of filling registers it lacks. */
#define REREAD() __asm__ volatile("" : : : "memory")

INLINE __m256 half_load(const uint8_t *at) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
}

INLINE __m256 bfloat_load(const uint8_t *at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at)), 16));
}

/* Add the eight lanes, always in this order. */
INLINE float lanes_sum(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

INLINE float lanes_max(__m256 v) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* e^v, within 2 ulp for normal results; 0 below -87.3, infinity above 88.7, NaN for NaN.
   Splits v into n ln 2 + r with |r| <= ln 2 / 2 and takes the Taylor series of r to the seventh power. */
INLINE __m256 exp_lanes(__m256 v) {
    const __m256 low = _mm256_set1_ps(-87.33654f), high = _mm256_set1_ps(88.72283f);
    __m256 inside = _mm256_max_ps(low, _mm256_min_ps(high, v)); /* NaN goes through: it is the second operand */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(inside, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), inside);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.98412698e-4f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.38888889e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.33333333e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16666667e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66666667e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
    /* 2^n in two factors, because n may be 128. */
    __m256i whole = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    __m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23));
    __m256 found = _mm256_mul_ps(_mm256_mul_ps(p, first), second);
    found = _mm256_andnot_ps(_mm256_cmp_ps(v, low, _CMP_LT_OQ), found);
    __m256 over = _mm256_cmp_ps(v, high, _CMP_GT_OQ);
    found = _mm256_blendv_ps(found, _mm256_set1_ps(__builtin_inff()), over);
    return _mm256_blendv_ps(found, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

#endif
