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
    for (int start = in_team * 4; has && start < S::H; start += 2 * team * 128) {
      float4 found[2];
      uint2 by[2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (const int at = start + i * team * 128; at < S::H)
          found[i] = read(n, at), by[i] = *reinterpret_cast<const uint2*>(norm + at);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (const int at = start + i * team * 128; at < S::H) {
          const float4 four = found[i];
          sum = fmaf(four.x, four.x, fmaf(four.y, four.y, fmaf(four.z, four.z, fmaf(four.w, four.w, sum))));
          *reinterpret_cast<uint2*>(s.x + n * S::PITCH + at) =
              make_uint2(pack(four.x * low(by[i].x), four.y * high(by[i].x)), pack(four.z * low(by[i].y), four.w * high(by[i].y)));
        }
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
  return parts_of<S::SIZE>(most + 1, S::PARTS);
}

// x = what the rows attended to, their parts summed.
template <typename S>
__device__ __forceinline__ void take_attended(State<S>& s) {
  constexpr int FOURS = S::SIZE / 4, MOST = 2;  // numbers by fours, and how many parts of them are on their way at once
  const int count = parts(s);
  for (int at = threadIdx.x; at < s.count * S::O / 4; at += THREADS) {
    const int row = at / (S::O / 4), four = at % (S::O / 4), head = four / FOURS;
    float most = -infinite(), all = 0.f;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int part = 0; part < count; part += MOST) {
      float2 share[MOST];
      float4 found[MOST];
#pragma unroll
      for (int i = 0; i < MOST; ++i) {
        const size_t from = (size_t(min(part + i, count - 1)) * S::ROWS + row) * S::HEADS + head;
        share[i] = __ldcg(reinterpret_cast<const float2*>(s.scratch.shares + from * 2));
        found[i] = __ldcg(reinterpret_cast<const float4*>(s.scratch.sums + from * S::SIZE) + four % FOURS);
      }
#pragma unroll
      for (int i = 0; i < MOST; ++i) {
        if (part + i >= count) continue;
        const float more = fmaxf(most, share[i].x), old = power_of_two(most - more), fresh = power_of_two(share[i].x - more);
        sum.x = sum.x * old + found[i].x * fresh;
        sum.y = sum.y * old + found[i].y * fresh;
        sum.z = sum.z * old + found[i].z * fresh;
        sum.w = sum.w * old + found[i].w * fresh;
        all = all * old + share[i].y * fresh;
        most = more;
      }
    }
    *reinterpret_cast<uint2*>(s.x + row * S::PITCH + four * 4) =
        make_uint2(pack(sum.x / all, sum.y / all), pack(sum.z / all, sum.w / all));
  }
  __syncthreads();
}

template <typename S>
__device__ __forceinline__ void take_inner(State<S>& s) {
  for (int at = threadIdx.x; at < s.count * (S::I / 8); at += THREADS) {
    const int row = at / (S::I / 8), piece = at % (S::I / 8);
    copy_16(shared_at(s.x + row * S::PITCH + piece * 8), s.scratch.inner + size_t(row) * S::I + piece * 8);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");  // the ring's first weights too: they were sent earlier
  __syncthreads();
}

}  // namespace tf
