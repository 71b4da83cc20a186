// Drafts from the rows that draw: the greatest logit, noise added, over all blocks' shares of the ids.
#pragma once
#include "taking.cuh"

namespace tf {

__device__ __forceinline__ float2 better(float2 one, float2 other) {
  const bool second = other.x > one.x || (other.x == one.x && __float_as_int(other.y) < __float_as_int(one.y));
  return second ? other : one;
}

__device__ __forceinline__ float2 beside(float2 one, int by) {
  return make_float2(__shfl_xor_sync(0xffffffffu, one.x, by), __shfl_xor_sync(0xffffffffu, one.y, by));
}

// The best of this block's share, for the `drawn` rows in `drawing`. noise [rows, V].
template <typename S>
__device__ __forceinline__ void draw(State<S>& s, const int* drawing, int drawn, const float* noise) {
  static_assert(STREAMS <= AT_ONCE, "all rows that draw are multiplied at once");
  __shared__ float2 found[WARPS][STREAMS];
  take(s, s.weights.norm, drawn, [&](int n, int at) { return kept(s, drawing[n], at); });
  const int lane = threadIdx.x % 32, mine = lane / 4;
  float2 best = make_float2(-infinite(), __int_as_float(0));
  products<Head<S>, S::PITCH>(s.ring, Head<S>::of(s.weights, 0), s.x, drawn, [&](int, int group, const auto& sums) {
    const int token = group * 4 + lane % 4;
    float value = picked(sums, lane % 4, mine);
    if (mine >= drawn || token >= S::V) return;
    const Row& row = s.rows[drawing[mine]];
    const Stream& stream = s.streams[row.stream];
    value *= s.scales[mine];
    if (stream.noise >= 0) value = value * stream.scale + noise[size_t(stream.noise + row.draw) * S::V + token];
    if (value > best.x) best = make_float2(value, __int_as_float(token));
  });
#pragma unroll
  for (int by = 1; by < 4; by *= 2) best = better(best, beside(best, by));
  if (mine < STREAMS && lane % 4 == 0) found[threadIdx.x / 32][mine] = best;
  __syncthreads();
  if (threadIdx.x < drawn) {
    float2 all = found[0][threadIdx.x];
    for (int warp = 1; warp < WARPS; ++warp) all = better(all, found[warp][threadIdx.x]);
    reinterpret_cast<float2*>(s.scratch.best)[blockIdx.x * STREAMS + threadIdx.x] = all;
  }
}

// What the blocks found, once all have: every block has the drafts, and the first one puts them down in tokens
// [STREAMS, steps].
template <typename S>
__device__ __forceinline__ void settle(State<S>& s, const int* drawing, int drawn, int* tokens, int steps) {
  const int n = threadIdx.x / 32;
  if (n < drawn) {
    float2 all = make_float2(-infinite(), __int_as_float(0));
    for (int block = threadIdx.x % 32; block < gridDim.x; block += 32)
      all = better(all, __ldcg(reinterpret_cast<const float2*>(s.scratch.best) + block * STREAMS + n));
#pragma unroll
    for (int by = 16; by; by /= 2) all = better(all, beside(all, by));
    if (threadIdx.x % 32 == 0) {
      const Row& row = s.rows[drawing[n]];
      const int token = min(max(__float_as_int(all.y), 0), S::V - 1);
      s.drafts[row.stream] = token;
      if (blockIdx.x == 0) tokens[row.stream * steps + row.draw] = token;
    }
  }
  __syncthreads();
}

}  // namespace tf
