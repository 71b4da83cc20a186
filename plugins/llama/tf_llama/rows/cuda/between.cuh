// What stands between the products: sums with their norm, the turn of queries and keys, and a leaf that is kept.
#pragma once
#include "common.cuh"

namespace tf {

struct alignas(16) Eight {
  __nv_bfloat162 pairs[4];
};

// sum[r] = rows[r] + the slices of parts [SLICES, rows, D], first to last; normed[r] = its RMS norm times weight.
// A block a row, of THREADS threads, each with every THREADSth eight numbers.
template <int D, int SLICES, int THREADS>
__device__ __forceinline__ void add_and_norm(const bf16* rows, const float* parts, const bf16* weight, const float* eps,
                                             bf16* sum, bf16* normed, int count) {
  constexpr int EIGHTS = D / 8, EACH = (EIGHTS + THREADS - 1) / THREADS, WARPS = THREADS / 32;
  static_assert(D % 8 == 0 && THREADS % 32 == 0 && THREADS <= 1024, "whole eights and warps");
  __shared__ float shared[WARPS];
  const size_t row = blockIdx.x;
  float held[EACH][8], squares = 0.f;
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    const int at = each * THREADS + threadIdx.x;
    if (at >= EIGHTS) continue;
    float added[8] = {};
    for (int slice = 0; slice < SLICES; ++slice) {
      const float4* part = reinterpret_cast<const float4*>(parts + (size_t(slice) * count + row) * D) + at * 2;
      const float4 low = part[0], high = part[1];
      const float eight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < 8; ++i) added[i] += eight[i];
    }
    const Eight old = reinterpret_cast<const Eight*>(rows + row * D)[at];
    Eight fresh;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = __bfloat1622float2(old.pairs[i]);
      fresh.pairs[i] = __floats2bfloat162_rn(two.x + added[i * 2], two.y + added[i * 2 + 1]);
      const float2 kept = __bfloat1622float2(fresh.pairs[i]);
      held[each][i * 2] = kept.x;
      held[each][i * 2 + 1] = kept.y;
      squares += kept.x * kept.x;
      squares += kept.y * kept.y;
    }
    reinterpret_cast<Eight*>(sum + row * D)[at] = fresh;
  }
#pragma unroll
  for (int by = 16; by; by /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, by);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = squares;
  __syncthreads();
  float all = 0.f;
#pragma unroll
  for (int warp = 0; warp < WARPS; ++warp) all += shared[warp];
  const float scale = rsqrtf(all / D + eps[0]);
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    const int at = each * THREADS + threadIdx.x;
    if (at >= EIGHTS) continue;
    const Eight by = reinterpret_cast<const Eight*>(weight)[at];
    Eight out;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = __bfloat1622float2(by.pairs[i]);
      out.pairs[i] = __floats2bfloat162_rn(held[each][i * 2] * scale * two.x, held[each][i * 2 + 1] * scale * two.y);
    }
    reinterpret_cast<Eight*>(normed + row * D)[at] = out;
  }
}

// y [rows, N] = the slices of parts [SLICES, rows, N], first to last. A thread a number.
template <int N, int SLICES>
__device__ __forceinline__ void add_slices(const float* parts, bf16* y, int rows) {
  const size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x, all = size_t(rows) * N;
  if (at >= all) return;
  float total = 0.f;
#pragma unroll
  for (int slice = 0; slice < SLICES; ++slice) total += parts[slice * all + at];
  y[at] = bf16(total);
}

// asked [rows, (HEADS + 2 KV) SIZE] -> queries [rows, HEADS, SIZE] and written [rows, 2 KV, SIZE]; queries and keys are
// turned by angles [rows, SIZE], cosines over sines. A thread a pair of numbers, SIZE / 2 threads a head.
template <int HEADS, int KV, int SIZE>
__device__ __forceinline__ void rotate(const bf16* asked, const float* angles, bf16* queries, bf16* written, int rows) {
  constexpr int HALF = SIZE / 2, ALL = HEADS + 2 * KV;
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= rows * ALL * HALF) return;
  const int i = at % HALF, head = at / HALF % ALL, row = at / (HALF * ALL);
  const bf16* from = asked + (size_t(row) * ALL + head) * SIZE;
  float first = float(from[i]), second = float(from[i + HALF]);
  if (head < HEADS + KV) {
    const float cosine = angles[row * SIZE + i], sine = angles[row * SIZE + HALF + i];
    const float turned = first * cosine - second * sine;
    second = first * sine + second * cosine;
    first = turned;
  }
  bf16* to = head < HEADS ? queries + (size_t(row) * HEADS + head) * SIZE
                          : written + (size_t(row) * 2 * KV + head - HEADS) * SIZE;
  to[i] = bf16(first);
  to[i + HALF] = bf16(second);
}

template <int LAYERS>
struct Caches {
  const bf16* layers[LAYERS];
};

// Row places[0] over row places[1] of every layer's cache [LANES, capacity, SIZE]. A block a layer.
template <int LAYERS, int LANES, int SIZE>
__device__ __forceinline__ void move_row(const Caches<LAYERS> caches, const int* places, int* done, int capacity) {
  bf16* layer = const_cast<bf16*>(caches.layers[blockIdx.x]);  // nobody else has the caches, and nothing runs beside this
  for (int at = threadIdx.x; at < LANES * SIZE / 8; at += blockDim.x) {
    bf16* lane = layer + size_t(at / (SIZE / 8)) * capacity * SIZE + at % (SIZE / 8) * 8;
    *reinterpret_cast<uint4*>(lane + size_t(places[1]) * SIZE) = *reinterpret_cast<const uint4*>(lane + size_t(places[0]) * SIZE);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *done = 1;
}

}  // namespace tf
