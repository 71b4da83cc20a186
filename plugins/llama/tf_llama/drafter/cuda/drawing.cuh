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

// What logits sum to as powers of e: `sum` times e to `most`.
struct Mass {
  float most, sum;

  static __device__ __forceinline__ Mass none() { return {-1e30f, 0.f}; }
  __device__ __forceinline__ void add(float other, float by) {
    const float more = fmaxf(most, other);
    sum = sum * power_of_two((most - more) * LOG2E) + by * power_of_two((other - more) * LOG2E);
    most = more;
  }
  // The probability of a logit; 0 where there are no numbers.
  __device__ __forceinline__ float share(float logit) const {
    const float part = power_of_two((logit - most) * LOG2E) / sum;
    return part >= 0.f ? fminf(part, 1.f) : 0.f;
  }
};

template <int FROM, int TO>
__device__ __forceinline__ void add_lanes(Mass& mass) {
#pragma unroll
  for (int by = FROM; by >= TO; by /= 2) {
    const float most = __shfl_xor_sync(0xffffffffu, mass.most, by), sum = __shfl_xor_sync(0xffffffffu, mass.sum, by);
    mass.add(most, sum);
  }
}

// What a block found in its share of a row's ids.
struct Found {
  Best best;
  Mass mass;
};

// The best of this block's share, for the `drawn` rows in `drawing`. noise [rows, V].
template <typename S>
__device__ __forceinline__ void draw(State<S>& s, const int* drawing, int drawn, const float* noise) {
  static_assert(STREAMS <= AT_ONCE && STREAMS <= WARPS, "all rows that draw are multiplied at once, and have a warp each");
  __shared__ Found found[WARPS][STREAMS];
  take(s, s.weights.norm, drawn, [&](int n, int at) { return kept(s, drawing[n], at); });
  const int lane = threadIdx.x % 32, mine = lane / 4, warp = threadIdx.x / 32;
  Best best = Best::none();
  Mass mass = Mass::none();
  products<Head<S>, S::PITCH>(s.ring, Head<S>::of(s.weights, 0), s.x, drawn, [&](int, int group, const auto& sums) {
    const int token = group * 4 + lane % 4;
    float value = picked(sums, lane % 4, mine);
    if (mine >= drawn || token >= S::V) return;
    const Row& row = s.rows[drawing[mine]];
    const Stream& stream = s.streams[row.stream];
    value *= s.scales[mine];
    mass.add(value, 1.f);
    if (stream.noise >= 0) value = value * stream.scale + noise[size_t(stream.noise + row.draw) * S::V + token];
    best.insert(candidate(value, token));
  });
  merge_lanes<2, 1>(best);
  add_lanes<2, 1>(mass);
  if (mine < STREAMS && lane % 4 == 0) found[warp][mine] = {best, mass};
  __syncthreads();
  if (warp < drawn) {
    Found all = lane < WARPS ? found[lane][warp] : Found{Best::none(), Mass::none()};
    merge_lanes<16, 1>(all.best);
    add_lanes<16, 1>(all.mass);
    if (lane == 0) reinterpret_cast<Found*>(s.scratch.found)[blockIdx.x * STREAMS + warp] = all;
  }
}

// What the blocks found, once all have: every block has the drafts and the chances that all so far stand, and the first one
// puts drafts and next best ids down in tokens [STREAMS, steps, BEST], -1 where there are no more, and behind all of them
// their probabilities.
template <typename S>
__device__ __forceinline__ void settle(State<S>& s, const int* drawing, int drawn, const float* noise, int* tokens, int steps) {
  const int n = threadIdx.x / 32;
  if (n < drawn) {
    Best all = Best::none();
    Mass mass = Mass::none();
    for (int block = threadIdx.x % 32; block < gridDim.x; block += 32) {
      const float2* from = reinterpret_cast<const float2*>(s.scratch.found) + (block * STREAMS + n) * (BEST + 1);
      Best theirs;
#pragma unroll
      for (int r = 0; r < BEST; ++r) theirs.list[r] = __ldcg(from + r);
      const float2 of = __ldcg(from + BEST);
      all.merge(theirs);
      mass.add(of.x, of.y);
    }
    merge_lanes<16, 1>(all);
    add_lanes<16, 1>(mass);
    if (threadIdx.x % 32 == 0) {
      const Row& row = s.rows[drawing[n]];
      const Stream& stream = s.streams[row.stream];
      const float* beside = stream.noise < 0 ? nullptr : noise + size_t(stream.noise + row.draw) * S::V;
      s.drafts[row.stream] = min(max(__float_as_int(all.list[0].y), 0), S::V - 1);  // also of blocks that gave up
#pragma unroll
      for (int r = 0; r < BEST; ++r) {
        if (r && blockIdx.x) break;
        const int id = r ? __float_as_int(all.list[r].y) : s.drafts[row.stream];
        const float logit = beside && id < S::V ? (all.list[r].x - beside[id]) / stream.scale : all.list[r].x;
        const float share = id < S::V ? mass.share(logit) : 0.f;
        if (r == 0) s.stands[row.stream] *= share;
        if (blockIdx.x == 0) {
          int* to = tokens + (row.stream * steps + row.draw) * BEST + r;
          to[0] = id < S::V ? id : -1;
          to[STREAMS * steps * BEST] = __float_as_int(share);
        }
      }
    }
  }
  __syncthreads();
}

}  // namespace tf
