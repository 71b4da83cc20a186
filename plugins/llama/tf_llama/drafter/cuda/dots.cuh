// Products of a few rows in shared memory with weights [N, K], four outputs a warp at a time.
//
// A product is a type: K, GROUPS, of(weights, layer), which(group, o). Constants without a value here are plan.py's.
#pragma once
#include "common.cuh"

namespace tf {

constexpr int THREADS = WARPS * 32, AT_ONCE = 4;

__device__ __forceinline__ float low(unsigned two) { return __uint_as_float(two << 16); }
__device__ __forceinline__ float high(unsigned two) { return __uint_as_float(two & 0xffff0000u); }

__device__ __forceinline__ void unpack(float (&to)[8], const uint4& from) {
  const unsigned words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i * 2] = low(words[i]), to[i * 2 + 1] = high(words[i]);
}

// The weights pass once, so they take no place in the first cache.
__device__ __forceinline__ uint4 once(const bf16* at) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(at));
  return value;
}

// The first weights that a warp will multiply, on their way while blocks wait for one another.
template <typename Product>
__device__ __forceinline__ void fetch(const bf16* weights) {
  constexpr int LINE = 64, MOST = 2048;  // numbers
  const int group = blockIdx.x + threadIdx.x / 32 * gridDim.x;
  if (group >= Product::GROUPS) return;
#pragma unroll
  for (int o = 0; o < 4; ++o)
    for (int k = threadIdx.x % 32 * LINE; k < min(Product::K, MOST); k += 32 * LINE)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(weights + size_t(Product::which(group, o)) * Product::K + k));
}

// For every group of four outputs: use(group, sums), sums[o][r] = weights[which(group, o)] . x[r]; all lanes have all sums.
// x: ROWS rows of K numbers, PITCH apart. A warp has its next loads under way while it multiplies.
template <typename Product, int PITCH, int ROWS, typename Use>
__device__ __forceinline__ void dots(const bf16* weights, const bf16* x, Use use) {
  constexpr int K = Product::K;
  const int lane = threadIdx.x % 32, step = gridDim.x * WARPS;
  auto load = [&](uint4 (&to)[4], int group, int k) {
#pragma unroll
    for (int o = 0; o < 4; ++o)
      to[o] = k < K ? once(weights + size_t(Product::which(group, o)) * K + k) : make_uint4(0, 0, 0, 0);
  };
  int group = blockIdx.x + threadIdx.x / 32 * gridDim.x, k = lane * 8;
  if (group >= Product::GROUPS) return;
  uint4 held[4], coming[4];
  load(held, group, k);
  float sums[4][ROWS] = {};
  while (true) {
    const bool ends = k - lane * 8 + 256 >= K;
    const int next = ends ? group + step : group, next_k = ends ? lane * 8 : k + 256;
    if (next < Product::GROUPS) load(coming, next, next_k);
    if (k < K) {
      float w[4][8];
#pragma unroll
      for (int o = 0; o < 4; ++o) unpack(w[o], held[o]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        float row[8];
        unpack(row, *reinterpret_cast<const uint4*>(x + r * PITCH + k));
#pragma unroll
        for (int o = 0; o < 4; ++o)
#pragma unroll
          for (int i = 0; i < 8; ++i) sums[o][r] = fmaf(w[o][i], row[i], sums[o][r]);
      }
    }
    if (ends) {
#pragma unroll
      for (int o = 0; o < 4; ++o)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
          for (int by = 16; by; by /= 2) sums[o][r] += __shfl_xor_sync(0xffffffffu, sums[o][r], by);
        }
      use(group, sums);
#pragma unroll
      for (int o = 0; o < 4; ++o)
#pragma unroll
        for (int r = 0; r < ROWS; ++r) sums[o][r] = 0.f;
    }
    if (next >= Product::GROUPS) return;
    group = next, k = next_k;
#pragma unroll
    for (int o = 0; o < 4; ++o) held[o] = coming[o];
  }
}

// The same for `rows` rows, one or four at a time: use(first row, group, sums).
template <typename Product, int PITCH, typename Use>
__device__ __forceinline__ void products(const bf16* weights, const bf16* x, int rows, Use use) {
  if (rows == 1) {
    dots<Product, PITCH, 1>(weights, x, [&](int group, const auto& sums) { use(0, group, sums); });
    return;
  }
  for (int first = 0; first < rows; first += AT_ONCE)
    dots<Product, PITCH, AT_ONCE>(weights, x + first * PITCH, [&](int group, const auto& sums) { use(first, group, sums); });
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
