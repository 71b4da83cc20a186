// Drafts from the rows that draw: the greatest logits, noise added, over all blocks' shares of the ids.
#pragma once
#include "taking.cuh"

namespace tf {

// A candidate is a value and, as its bits, an id; an empty one comes behind all others.
__device__ __forceinline__ float2 candidate(float value, int id) { return make_float2(value, __int_as_float(id)); }

constexpr int NOBODY = 0x7fffffff;

// Of equal values the lower id is first. What is no number never is.
__device__ __forceinline__ bool before(float2 one, float2 other) {
  return one.x > other.x || (one.x == other.x && __float_as_int(one.y) < __float_as_int(other.y));
}

__device__ __forceinline__ void order(float2& one, float2& other) {
  const bool turned = before(other, one);
  const float2 first = turned ? other : one, second = turned ? one : other;
  one = first, other = second;
}

// The best candidates that one thread knows of, sorted. No id is in two lists before they are merged, so none is twice
// in what they come to.
struct Best {
  float2 list[BEST];

  static __device__ __forceinline__ Best none() {
    Best made;
#pragma unroll
    for (int r = 0; r < BEST; ++r) made.list[r] = candidate(-infinite(), NOBODY);
    return made;
  }
  __device__ __forceinline__ void insert(float2 fresh) {
#pragma unroll
    for (int r = 0; r < BEST; ++r) order(list[r], fresh);
  }
  // One list up and the other down: the greater of each pair are the best of both, and half sorted.
  __device__ __forceinline__ void merge(const Best& other) {
    static_assert((BEST & (BEST - 1)) == 0, "a half-sorted list is sorted by halves");
#pragma unroll
    for (int r = 0; r < BEST; ++r)
      if (before(other.list[BEST - 1 - r], list[r])) list[r] = other.list[BEST - 1 - r];
#pragma unroll
    for (int by = BEST / 2; by; by /= 2) {
#pragma unroll
      for (int r = 0; r < BEST; ++r)
        if (!(r & by)) order(list[r], list[r | by]);
    }
  }
};

// Merges the lists of lanes that differ in the bits from `from` to `to`: each of them has the result.
template <int FROM, int TO>
__device__ __forceinline__ void merge_lanes(Best& best) {
#pragma unroll
  for (int by = FROM; by >= TO; by /= 2) {
    Best other;
#pragma unroll
    for (int r = 0; r < BEST; ++r)
      other.list[r] = make_float2(__shfl_xor_sync(0xffffffffu, best.list[r].x, by), __shfl_xor_sync(0xffffffffu, best.list[r].y, by));
    best.merge(other);
  }
}

// The best of this block's share, for the `drawn` rows in `drawing`. noise [rows, V].
template <typename S>
__device__ __forceinline__ void draw(State<S>& s, const int* drawing, int drawn, const float* noise) {
  static_assert(STREAMS <= AT_ONCE && STREAMS <= WARPS, "all rows that draw are multiplied at once, and have a warp each");
  __shared__ Best found[WARPS][STREAMS];
  take(s, s.weights.norm, drawn, [&](int n, int at) { return kept(s, drawing[n], at); });
  const int lane = threadIdx.x % 32, mine = lane / 4, warp = threadIdx.x / 32;
  Best best = Best::none();
  products<Head<S>, S::PITCH>(s.ring, Head<S>::of(s.weights, 0), s.x, drawn, [&](int, int group, const auto& sums) {
    const int token = group * 4 + lane % 4;
    float value = picked(sums, lane % 4, mine);
    if (mine >= drawn || token >= S::V) return;
    const Row& row = s.rows[drawing[mine]];
    const Stream& stream = s.streams[row.stream];
    value *= s.scales[mine];
    if (stream.noise >= 0) value = value * stream.scale + noise[size_t(stream.noise + row.draw) * S::V + token];
    best.insert(candidate(value, token));
  });
  merge_lanes<2, 1>(best);
  if (mine < STREAMS && lane % 4 == 0) found[warp][mine] = best;
  __syncthreads();
  if (warp < drawn) {
    Best all = lane < WARPS ? found[lane][warp] : Best::none();
    merge_lanes<16, 1>(all);
    if (lane == 0) reinterpret_cast<Best*>(s.scratch.best)[blockIdx.x * STREAMS + warp] = all;
  }
}

// What the blocks found, once all have: every block has the drafts, and the first one puts them and the next best ids
// down in tokens [STREAMS, steps, BEST], -1 where there are no more.
template <typename S>
__device__ __forceinline__ void settle(State<S>& s, const int* drawing, int drawn, int* tokens, int steps) {
  const int n = threadIdx.x / 32;
  if (n < drawn) {
    Best all = Best::none();
    for (int block = threadIdx.x % 32; block < gridDim.x; block += 32) {
      Best theirs;
#pragma unroll
      for (int r = 0; r < BEST; ++r)
        theirs.list[r] = __ldcg(reinterpret_cast<const float2*>(s.scratch.best) + (block * STREAMS + n) * BEST + r);
      all.merge(theirs);
    }
    merge_lanes<16, 1>(all);
    if (threadIdx.x % 32 == 0) {
      const Row& row = s.rows[drawing[n]];
      s.drafts[row.stream] = min(max(__float_as_int(all.list[0].y), 0), S::V - 1);  // also of blocks that gave up
      if (blockIdx.x == 0) {
        int* to = tokens + (row.stream * steps + row.draw) * BEST;
        to[0] = s.drafts[row.stream];
#pragma unroll
        for (int r = 1; r < BEST; ++r) {
          const int id = __float_as_int(all.list[r].y);
          to[r] = id < S::V ? id : -1;
        }
      }
    }
  }
  __syncthreads();
}

}  // namespace tf
