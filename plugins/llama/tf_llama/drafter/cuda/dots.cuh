// Products of a few rows in shared memory with weights [N, K], four outputs a warp at a time.
#pragma once
#include "ring.cuh"

namespace tf {

constexpr int AT_ONCE = 4;

__device__ __forceinline__ float low(unsigned two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high(unsigned two) { return __uint_as_float(two & 0xffff0000u); }

__device__ __forceinline__ void unpack(float (&to)[8], const uint4& from) {
  const unsigned words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i * 2] = low(words[i]), to[i * 2 + 1] = high(words[i]);
}

// For every group of four outputs: use(group, sums), sums[o][r] = weights[which(group, o)] . x[r]; all lanes have all sums.
// x: ROWS rows of K numbers, PITCH apart. The ring was started with the product.
template <typename Product, int PITCH, int ROWS, typename Use>
__device__ __forceinline__ void dots(const Ring& ring, const bf16* weights, const bf16* x, Use use) {
  Walk<Product> now = Walk<Product>::from(0), next = Walk<Product>::from(AHEAD);
  float sums[4][ROWS] = {};
  for (int slot = 0; now.goes_on(); slot = slot + 1 == AHEAD ? 0 : slot + 1) {
    uint4 held[4];
    ring.arrived(held, slot);
    ring.send(slot, weights, next);
    next.step();
    if (now.k() < Product::K) {
      float w[4][8];
#pragma unroll
      for (int o = 0; o < 4; ++o) unpack(w[o], held[o]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        float row[8];
        unpack(row, *reinterpret_cast<const uint4*>(x + r * PITCH + now.k()));
#pragma unroll
        for (int o = 0; o < 4; ++o)
#pragma unroll
          for (int i = 0; i < 8; ++i) sums[o][r] = fmaf(w[o][i], row[i], sums[o][r]);
      }
    }
    if (now.ends()) {
#pragma unroll
      for (int o = 0; o < 4; ++o)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
          for (int by = 16; by; by /= 2) sums[o][r] += __shfl_xor_sync(0xffffffffu, sums[o][r], by);
        }
      use(now.group, sums);
#pragma unroll
      for (int o = 0; o < 4; ++o)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sums[o][r] = 0.f;
    }
    now.step();
  }
}

// The same for `rows` rows, one or four at a time: use(first row, group, sums).
template <typename Product, int PITCH, typename Use>
__device__ __forceinline__ void products(const Ring& ring, const bf16* weights, const bf16* x, int rows, Use use) {
  if (rows == 1) {
    dots<Product, PITCH, 1>(ring, weights, x, [&](int group, const auto& sums) { use(0, group, sums); });
    return;
  }
  for (int first = 0; first < rows; first += AT_ONCE) {
    if (first) ring.template start<Product>(weights);
    dots<Product, PITCH, AT_ONCE>(ring, weights, x + first * PITCH,
                                  [&](int group, const auto& sums) { use(first, group, sums); });
  }
}

// sums[o][r], of which a lane asks for its own: no register can be addressed.
template <int ROWS>
__device__ __forceinline__ float picked(const float (&sums)[4][ROWS], int o, int r) {
  float value = 0.f;
#pragma unroll
  for (int a = 0; a < 4; ++a)
#pragma unroll
    for (int b = 0; b < ROWS; ++b)
      if (a == o && b == r) value = sums[a][b];
  return value;
}

}  // namespace tf
