// What stands between the products: sums with their norm, the turn of queries and keys, and a leaf that is kept.
#pragma once
#include "common.cuh"

namespace tf {

struct alignas(16) Eight {
  __nv_bfloat162 pairs[4];
};

// The squares of eight numbers, summed.
__device__ __forceinline__ float squared(const Eight& eight, float squares) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __bfloat1622float2(eight.pairs[i]);
    squares = fmaf(two.x, two.x, squares);
    squares = fmaf(two.y, two.y, squares);
  }
  return squares;
}

__device__ __forceinline__ float over_warp(float value) {
#pragma unroll
  for (int by = 16; by; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
  return value;
}

__device__ __forceinline__ Eight loaded(const bf16* row, int at) {
  union {
    uint4 words;
    Eight eight;
  } both;
  both.words = __ldcg(reinterpret_cast<const uint4*>(row) + at);
  return both.eight;
}

// Eight numbers of a row and, of parts [slices, count, D], of all its slices, first to last; there are at most MOST.
template <int D, int MOST>
__device__ __forceinline__ Eight added(const bf16* rows, const float* parts, int slices, int count, int row, int at) {
  float4 low[MOST], high[MOST];
#pragma unroll
  for (int slice = 0; slice < MOST; ++slice) {
    if (slice >= slices) continue;
    const float4* part = reinterpret_cast<const float4*>(parts + (size_t(slice) * count + row) * D) + at * 2;
    low[slice] = __ldcg(part), high[slice] = __ldcg(part + 1);
  }
  const Eight old = loaded(rows + size_t(row) * D, at);
  float sum[8] = {};
#pragma unroll
  for (int slice = 0; slice < MOST; ++slice) {
    if (slice >= slices) continue;
    const float eight[8] = {low[slice].x,  low[slice].y,  low[slice].z,  low[slice].w,
                            high[slice].x, high[slice].y, high[slice].z, high[slice].w};
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += eight[i];
  }
  Eight fresh;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __bfloat1622float2(old.pairs[i]);
    fresh.pairs[i] = __floats2bfloat162_rn(two.x + sum[i * 2], two.y + sum[i * 2 + 1]);
  }
  return fresh;
}

template <int D>
__device__ __forceinline__ float norm_scale(float squares, float eps) {
  return rsqrtf(__fadd_rn(__fdiv_rn(squares, float(D)), eps));
}

__device__ __forceinline__ Eight weighted(const Eight& eight, const Eight& weight) {
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = __bfloat1622float2(eight.pairs[i]), by = __bfloat1622float2(weight.pairs[i]);
    out.pairs[i] = __floats2bfloat162_rn(two.x * by.x, two.y * by.y);
  }
  return out;
}

// sum[r] = rows[r] + the slices of parts [SLICES, rows, D], first to last. Its RMS norm comes in two: normed[r] = sum[r]
// times weight, and scale[r], which the products of normed[r] are multiplied by.
// A block a row, of THREADS threads, each with every THREADSth eight numbers. Squares are summed by warps, which have 256
// numbers each up to a width of 8,192; then the warps' sums, first to last.
template <int D, int SLICES, int THREADS>
__device__ __forceinline__ void add_and_norm(const bf16* rows, const float* parts, const bf16* weight, const float* eps,
                                             bf16* sum, bf16* normed, float* scale, int count) {
  constexpr int EIGHTS = D / 8, EACH = (EIGHTS + THREADS - 1) / THREADS, WARPS = THREADS / 32;
  static_assert(D % 8 == 0 && THREADS % 32 == 0 && THREADS <= 1024, "whole eights and warps");
  __shared__ float shared[WARPS];
  const size_t row = blockIdx.x;
  float squares = 0.f;
#pragma unroll
  for (int each = 0; each < EACH; ++each) {
    const int at = each * THREADS + threadIdx.x;
    if (at >= EIGHTS) continue;
    const Eight fresh = added<D, SLICES ? SLICES : 1>(rows, parts, SLICES, count, row, at);
    squares = squared(fresh, squares);
    reinterpret_cast<Eight*>(sum + row * D)[at] = fresh;
    reinterpret_cast<Eight*>(normed + row * D)[at] = weighted(fresh, loaded(weight, at));
  }
  squares = over_warp(squares);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = squares;
  __syncthreads();
  float all = 0.f;
#pragma unroll
  for (int warp = 0; warp < WARPS; ++warp) all += shared[warp];
  if (threadIdx.x == 0) scale[row] = norm_scale<D>(all, eps[0]);
}

// y [rows, N] = the slices of parts [SLICES, rows, N], first to last, times scale [rows]. A thread a number.
template <int N, int SLICES>
__device__ __forceinline__ void add_slices(const float* parts, const float* scale, bf16* y, int rows) {
  const size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x, all = size_t(rows) * N;
  if (at >= all) return;
  float total = 0.f;
#pragma unroll
  for (int slice = 0; slice < SLICES; ++slice) total += parts[slice * all + at];
  y[at] = bf16(__fmul_rn(total, scale[at / N]));
}

// By an angle. The roundings are spelled out: the same in whatever it is compiled into.
__device__ __forceinline__ void turn(float& first, float& second, float cosine, float sine) {
  const float turned = fmaf(first, cosine, -__fmul_rn(second, sine));
  second = fmaf(first, sine, __fmul_rn(second, cosine));
  first = turned;
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
    turn(first, second, cosine, sine);
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
