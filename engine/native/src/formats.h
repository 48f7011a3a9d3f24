/* How the weights of one record become floats. Everything is inlined with a constant `kind`. */
#ifndef NATIVE_FORMATS_H
#define NATIVE_FORMATS_H

#include "matrix.h"
#include "simd.h"

typedef struct {
    __m256 scale[2];
    __m256 sixteenth[2]; /* of the scale, for a four-bit value read four bits too high; exact */
    __m256 least[2];
} scales;

INLINE int has_halves(int kind) { return kind == Q4H || kind == Q8H || kind == Q8HM; }
INLINE int has_scales(int kind) { return kind >= Q4H; }
INLINE int has_least(int kind) { return kind == Q4H || kind == Q4S || kind == Q8HM || kind == Q8SM; }
INLINE int is_four_bit(int kind) { return kind == Q4H || kind == Q4S; }

INLINE int inputs_of(int kind) { return kind <= BF16 ? 8 : kind == Q8S ? 16 : 32; }

INLINE int head_bytes(int kind) {
    return has_scales(kind) * PANEL * (has_halves(kind) ? 2 : 4) * (1 + has_least(kind));
}

INLINE int bytes_of(int kind) {
    int body = kind == F32 ? 4 * PANEL * 8 : kind <= BF16 ? 2 * PANEL * 8 : inputs_of(kind) * PANEL;
    return head_bytes(kind) + (is_four_bit(kind) ? body / 2 : body);
}

INLINE scales read_scales(int kind, const uint8_t *record) {
    scales s;
    for (int half = 0; half < 2; half++) {
        s.scale[half] = s.least[half] = s.sixteenth[half] = _mm256_setzero_ps();
        if (!has_scales(kind)) continue;
        int width = has_halves(kind) ? 2 : 4;
        const uint8_t *at = record + half * LANES * width;
        s.scale[half] = has_halves(kind) ? half_load(at) : _mm256_loadu_ps((const float *)at);
        if (has_least(kind)) {
            at += PANEL * width;
            s.least[half] = has_halves(kind) ? half_load(at) : _mm256_loadu_ps((const float *)at);
        }
        if (is_four_bit(kind)) s.sixteenth[half] = _mm256_mul_ps(s.scale[half], _mm256_set1_ps(0.0625f));
    }
    return s;
}

typedef struct {
    __m256i mask[2];
} four_bit_masks;

INLINE four_bit_masks hold_masks(int kind) {
    four_bit_masks m = {{_mm256_set1_epi32(0x0f), _mm256_set1_epi32(0xf0)}};
    if (is_four_bit(kind)) {
        HOLD(m.mask[0]);
        HOLD(m.mask[1]);
    }
    return m;
}

/* The next three functions, one after the other, give the weights of eight outputs (`half` of the panel) for input
   `chunk` * 8 + `step` of the record.
   Four-bit values are read where they lie: from an address `step` / 2 bytes on, the wanted bits are the lowest of each
   word. That reads up to three bytes past the record, which the buffer behind the matrix allows for. */
INLINE __m256i stored_lanes(int kind, const uint8_t *record, four_bit_masks m, int half, int chunk, int step) {
    const uint8_t *body = record + head_bytes(kind);
    int at = (chunk * 8 + step) * PANEL + half * LANES;
    if (kind == F32) return _mm256_loadu_si256((const __m256i *)(body + 4 * at));
    if (kind == F16) return _mm256_castps_si256(half_load(body + 2 * at));
    if (kind == BF16) return _mm256_castps_si256(bfloat_load(body + 2 * at));
    if (is_four_bit(kind))
        return _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(body + chunk * 64 + half * 32 + step / 2)),
                                m.mask[step % 2]);
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(body + at)));
}

INLINE __m256 float_lanes(int kind, __m256i stored) {
    return has_scales(kind) ? _mm256_cvtepi32_ps(stored) : _mm256_castsi256_ps(stored);
}

INLINE __m256 scaled_lanes(int kind, __m256 value, const scales *s, int half, int step) {
    if (!has_scales(kind)) return value;
    __m256 scale = is_four_bit(kind) && step % 2 ? s->sixteenth[half] : s->scale[half];
    return has_least(kind) ? _mm256_fmadd_ps(value, scale, s->least[half]) : _mm256_mul_ps(value, scale);
}

#endif
