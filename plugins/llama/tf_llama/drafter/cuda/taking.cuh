// Rows into shared memory, as the next product needs them.
#pragma once
#include "keys.cuh"
#include "state.cuh"

namespace tf {

// x = row * norm and the norm's scale, of `count` rows; four numbers of the nth are read(n, at).
template <typename S, typename Read>
__device__ __forceinline__ void take(State<S>& s, const bf16* norm, int count, Read read) {
  __shared__ float squares[WARPS];
  const int team = count == 1 ? WARPS : count == 2 ? WARPS / 2 : count <= 4 ? WARPS / 4 : 1, teams = WARPS / team;
  const int warp = threadIdx.x / 32, mine = warp / team, in_team = threadIdx.x - mine * team * 32;
  for (int first = 0; first < count; first += teams) {
    const int n = first + mine;
    const bool has = n < count && mine < teams;
    float sum = 0.f;
    for (int at = in_team * 4; has && at < S::H; at += team * 128) {
      const float4 four = read(n, at);
      const uint2 by = *reinterpret_cast<const uint2*>(norm + at);
      sum = fmaf(four.x, four.x, fmaf(four.y, four.y, fmaf(four.z, four.z, fmaf(four.w, four.w, sum))));
      *reinterpret_cast<uint2*>(s.x + n * S::PITCH + at) = make_uint2(pack(four.x * low(by.x), four.y * high(by.x)),
                                                                      pack(four.z * low(by.y), four.w * high(by.y)));
    }
#pragma unroll
    for (int by = 16; by; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (threadIdx.x % 32 == 0) squares[warp] = sum;
    __syncthreads();
    if (has && in_team == 0) {
      float all = 0.f;
      for (int w = 0; w < team; ++w) all += squares[mine * team + w];
      s.scales[n] = rsqrtf(all / S::H + s.eps);
    }
    __syncthreads();
  }
}

template <typename S>
__device__ __forceinline__ float4 kept(const State<S>& s, int row, int at) {
  return __ldcg(reinterpret_cast<const float4*>(s.scratch.hidden + size_t(row) * S::H + at));
}

template <typename S>
__device__ __forceinline__ void take_all(State<S>& s, const bf16* norm) {
  take(s, norm, s.count, [&](int row, int at) { return kept(s, row, at); });
}

// The same of the rows' embeddings, which the first block puts down for everyone.
template <typename S>
__device__ __forceinline__ void take_tokens(State<S>& s, const bf16* norm) {
  take(s, norm, s.count, [&](int row, int at) {
    const int token = s.rows[row].token < 0 ? s.drafts[s.rows[row].stream] : s.rows[row].token;
    const uint2 two = *reinterpret_cast<const uint2*>(s.weights.table + size_t(token) * S::H + at);
    const float4 four = make_float4(low(two.x), high(two.x), low(two.y), high(two.y));
    if (blockIdx.x == 0) *reinterpret_cast<float4*>(s.scratch.hidden + size_t(row) * S::H + at) = four;
    return four;
  });
}

// Into how many parts this pass cuts keys.
template <typename S>
__device__ __forceinline__ int parts(const State<S>& s) {
  int most = 0;
  for (int row = 0; row < s.count; ++row) most = max(most, s.rows[row].position);
  return parts_of(most + 1);
}

// x = what the rows attended to, their parts summed.
template <typename S>
__device__ __forceinline__ void take_attended(State<S>& s) {
  const int count = parts(s);
  for (int at = threadIdx.x; at < s.count * S::O / 2; at += THREADS) {
    const int row = at / (S::O / 2), pair = at % (S::O / 2), head = pair / S::HALF;
    float most = -infinite(), all = 0.f;
    float2 sum = make_float2(0.f, 0.f);
    for (int part = 0; part < count; ++part) {
      const size_t from = (size_t(part) * S::ROWS + row) * S::HEADS + head;
      const float2 share = __ldcg(reinterpret_cast<const float2*>(s.scratch.shares + from * 2));
      const float2 two = __ldcg(reinterpret_cast<const float2*>(s.scratch.sums + from * S::SIZE) + pair % S::HALF);
      const float more = fmaxf(most, share.x), old = power_of_two(most - more), fresh = power_of_two(share.x - more);
      sum.x = sum.x * old + two.x * fresh;
      sum.y = sum.y * old + two.y * fresh;
      all = all * old + share.y * fresh;
      most = more;
    }
    *reinterpret_cast<unsigned*>(s.x + row * S::PITCH + pair * 2) = pack(sum.x / all, sum.y / all);
  }
  __syncthreads();
}

template <typename S>
__device__ __forceinline__ void take_inner(State<S>& s) {
  for (int at = threadIdx.x; at < s.count * (S::I / 8); at += THREADS) {
    const int row = at / (S::I / 8), piece = at % (S::I / 8);
    *reinterpret_cast<uint4*>(s.x + row * S::PITCH + piece * 8) =
        __ldcg(reinterpret_cast<const uint4*>(s.scratch.inner + size_t(row) * S::I) + piece);
  }
  __syncthreads();
}

}  // namespace tf
