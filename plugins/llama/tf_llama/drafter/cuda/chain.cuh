// A whole chain of drafts in one launch: every step of up to four streams, without the host.
//
// A step of a small drafter is a hundred small operations that each wait for the last. Here they are passes of one grid
// whose blocks meet after every operation, some two microseconds a meeting.
#pragma once
#include "keys.cuh"
#include "meeting.cuh"

namespace tf {

// One row of a pass. token: an id, or -1 for the stream's last draft. draw: the step whose draft this row gives, or -1.
struct Row {
  int stream, position, token, draw;
};

struct Weights {
  const bf16 *table, *attend_norms, *attend, *output, *mlp_norms, *gate_up, *down, *norm, *head;
};

// What blocks tell each other. hidden [ROWS, H], queries [ROWS, HEADS * SIZE], sums [MOST_PARTS, ROWS, HEADS, SIZE],
// shares [MOST_PARTS, ROWS, HEADS, 2], inner [ROWS, I], best [blocks, STREAMS, 2].
struct Scratch {
  float *hidden, *queries, *sums, *shares;
  bf16* inner;
  float* best;
};

// Keys and values of the streams: cache [L * 2 KV, capacity, SIZE], written [L * 2 KV, TAIL, SIZE] from `base` on.
struct Stream {
  const bf16* cache;
  bf16* written;
  int capacity, base, noise;
  float scale;
};

template <int L, int H, int HEADS, int KV, int SIZE, int I, int V, int ROWS, int TAIL>
struct Chain {
  static constexpr int GROUP = HEADS / KV, HALF = SIZE / 2, O = HEADS * SIZE, ALL = HEADS + 2 * KV;
  static constexpr int WIDEST = H > O ? (H > I ? H : I) : (O > I ? O : I), PITCH = WIDEST + 8;

  const Weights& weights;
  const Scratch& scratch;
  const Stream* streams;  // shared
  const Row* rows;        // shared, of this pass
  bf16* x;                // shared, [ROWS][PITCH]
  float* scales;          // shared, [ROWS]: of the RMS norm
  int* drafts;            // shared, [STREAMS]: last drafts
  float eps;
  int count;

  // x = hidden * norm, and the norm's scales, of `count` rows of which the nth is row which(n).
  template <typename Which, typename Read>
  __device__ __forceinline__ void take(const bf16* norm, int count, Which which, Read read) {
    __shared__ float squares[WARPS];
    const int team = count == 1 ? WARPS : count == 2 ? WARPS / 2 : count <= 4 ? WARPS / 4 : 1, teams = WARPS / team;
    const int warp = threadIdx.x / 32, mine = warp / team, in_team = threadIdx.x - mine * team * 32;
    for (int first = 0; first < count; first += teams) {
      const int n = first + mine;
      float sum = 0.f;
      if (n < count && mine < teams) {
        const int row = which(n);
        for (int at = in_team * 4; at < H; at += team * 128) {
          const float4 four = read(row, at);
          const uint2 by = *reinterpret_cast<const uint2*>(norm + at);
          sum = fmaf(four.x, four.x, fmaf(four.y, four.y, fmaf(four.z, four.z, fmaf(four.w, four.w, sum))));
          *reinterpret_cast<uint2*>(x + n * PITCH + at) =
              make_uint2(pack(four.x * __uint_as_float(by.x << 16), four.y * __uint_as_float(by.x & 0xffff0000u)),
                         pack(four.z * __uint_as_float(by.y << 16), four.w * __uint_as_float(by.y & 0xffff0000u)));
        }
      }
#pragma unroll
      for (int by = 16; by; by /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
      if (threadIdx.x % 32 == 0) squares[warp] = sum;
      __syncthreads();
      if (n < count && mine < teams && in_team == 0) {
        float all = 0.f;
        for (int w = 0; w < team; ++w) all += squares[mine * team + w];
        scales[n] = rsqrtf(all / H + eps);
      }
      __syncthreads();
    }
  }

  __device__ __forceinline__ float4 kept(int row, int at) const {
    return __ldcg(reinterpret_cast<const float4*>(scratch.hidden + size_t(row) * H + at));
  }

  __device__ __forceinline__ void take_all(const bf16* norm) {
    take(norm, count, [](int n) { return n; }, [&](int row, int at) { return kept(row, at); });
  }

  // The same of the rows' embeddings, which the first block puts down for everyone.
  __device__ __forceinline__ void take_tokens(const bf16* norm) {
    take(norm, count, [](int n) { return n; }, [&](int row, int at) {
      const int token = rows[row].token < 0 ? drafts[rows[row].stream] : rows[row].token;
      const uint2 two = *reinterpret_cast<const uint2*>(weights.table + size_t(token) * H + at);
      const float4 four = make_float4(__uint_as_float(two.x << 16), __uint_as_float(two.x & 0xffff0000u),
                                      __uint_as_float(two.y << 16), __uint_as_float(two.y & 0xffff0000u));
      if (blockIdx.x == 0) *reinterpret_cast<float4*>(scratch.hidden + size_t(row) * H + at) = four;
      return four;
    });
  }

  // Queries into the scratch, keys and values to where they stay. angles [ROWS, SIZE]: cosines, then sines.
  __device__ __forceinline__ void ask(int layer, const float* angles) {
    auto which = [](int group, int o) { return group / (HALF / 2) * SIZE + group % (HALF / 2) * 2 + (o / 2) * HALF + o % 2; };
    products<H, PITCH>(weights.attend + size_t(layer) * ALL * SIZE * H, x, count, ALL * HALF / 2, which,
                       [&](int first, int group, const auto& sums) {
      const int lane = threadIdx.x % 32, row = first + lane, head = group / (HALF / 2), at = group % (HALF / 2) * 2;
      float value[4];
#pragma unroll
      for (int o = 0; o < 4; ++o) value[o] = picked(sums, o, lane);
      if (lane >= AT_ONCE || row >= count) return;
#pragma unroll
      for (int o = 0; o < 4; ++o) value[o] *= scales[row];
      if (head < HEADS + KV) {
#pragma unroll
        for (int o = 0; o < 2; ++o) {
          const float cosine = angles[row * SIZE + at + o], sine = angles[row * SIZE + HALF + at + o];
          const float turned = value[o] * cosine - value[o + 2] * sine;
          value[o + 2] = value[o] * sine + value[o + 2] * cosine;
          value[o] = turned;
        }
      }
      if (head < HEADS) {
        const float scale = rsqrtf(float(SIZE)) * LOG2E;
        float* to = scratch.queries + size_t(row) * O + head * SIZE + at;
        *reinterpret_cast<float2*>(to) = make_float2(value[0] * scale, value[1] * scale);
        *reinterpret_cast<float2*>(to + HALF) = make_float2(value[2] * scale, value[3] * scale);
      } else {
        const Stream& stream = streams[rows[row].stream];
        const int lane_of = layer * 2 * KV + head - HEADS, slot = rows[row].position - stream.base;
        bf16* to = stream.written + (size_t(lane_of) * TAIL + slot) * SIZE + at;
        *reinterpret_cast<unsigned*>(to) = pack(value[0], value[1]);
        *reinterpret_cast<unsigned*>(to + HALF) = pack(value[2], value[3]);
      }
    });
  }

  __device__ __forceinline__ int parts() const {
    int most = 0;
    for (int row = 0; row < count; ++row) most = max(most, rows[row].position);
    return parts_of(most + 1);
  }

  __device__ __forceinline__ void look(int layer) {
    __shared__ float query[GROUP * SIZE];
    const int parts = this->parts();
    for (int item = blockIdx.x; item < count * KV * parts; item += gridDim.x) {
      const int row = item / (KV * parts), kv = item / parts % KV, part = item % parts;
      const Stream& stream = streams[rows[row].stream];
      for (int at = threadIdx.x; at < GROUP * SIZE; at += THREADS)
        query[at] = __ldcg(scratch.queries + size_t(row) * O + kv * GROUP * SIZE + at);
      __syncthreads();
      const int keys = rows[row].position + 1, each = ((keys + parts - 1) / parts + 31) / 32 * 32;
      auto lane = [&](int which) {
        const size_t at = layer * 2 * KV + which * KV + kv;
        return Lane<SIZE>{stream.cache + at * stream.capacity * SIZE, stream.written + at * TAIL * SIZE, stream.base};
      };
      const size_t to = (size_t(part) * ROWS + row) * HEADS + kv * GROUP;
      attend<GROUP, SIZE>(query, lane(0), lane(1), part * each, min(keys, part * each + each), reinterpret_cast<float*>(x),
                          scratch.sums + to * SIZE, scratch.shares + to * 2);
    }
  }

  // x = what the rows attended to, their parts summed.
  __device__ __forceinline__ void take_attended() {
    const int parts = this->parts();
    for (int at = threadIdx.x; at < count * O / 2; at += THREADS) {
      const int row = at / (O / 2), pair = at % (O / 2), head = pair / HALF;
      float most = -infinite(), all = 0.f;
      float2 sum = make_float2(0.f, 0.f);
      for (int part = 0; part < parts; ++part) {
        const size_t from = (size_t(part) * ROWS + row) * HEADS + head;
        const float2 share = __ldcg(reinterpret_cast<const float2*>(scratch.shares + from * 2));
        const float2 two = __ldcg(reinterpret_cast<const float2*>(scratch.sums + from * SIZE) + pair % HALF);
        const float greater = fmaxf(most, share.x), old = power_of_two(most - greater), fresh = power_of_two(share.x - greater);
        sum.x = sum.x * old + two.x * fresh;
        sum.y = sum.y * old + two.y * fresh;
        all = all * old + share.y * fresh;
        most = greater;
      }
      *reinterpret_cast<unsigned*>(x + row * PITCH + pair * 2) = pack(sum.x / all, sum.y / all);
    }
    __syncthreads();
  }

  // hidden += x times weights [H, K].
  template <int K>
  __device__ __forceinline__ void add(const bf16* weight) {
    products<K, PITCH>(weight, x, count, H / 4, [](int group, int o) { return group * 4 + o; },
                       [&](int first, int group, const auto& sums) {
      const int lane = threadIdx.x % 32, row = first + lane / 4;
      const float value = picked(sums, lane % 4, lane / 4);
      if (lane >= 4 * AT_ONCE || row >= count) return;
      float* to = scratch.hidden + size_t(row) * H + group * 4 + lane % 4;
      __stcg(to, __ldcg(to) + value);
    });
  }

  __device__ __forceinline__ void gate(int layer) {
    products<H, PITCH>(weights.gate_up + size_t(layer) * 2 * I * H, x, count, I / 2,
                       [](int group, int o) { return (o / 2) * I + group * 2 + o % 2; },
                       [&](int first, int group, const auto& sums) {
      const int lane = threadIdx.x % 32, row = first + lane;
      float value[4];
#pragma unroll
      for (int o = 0; o < 4; ++o) value[o] = picked(sums, o, lane);
      if (lane >= AT_ONCE || row >= count) return;
#pragma unroll
      for (int o = 0; o < 2; ++o) {
        const float gate = value[o] * scales[row];
        value[o] = gate / (1.f + power_of_two(-gate * LOG2E)) * value[o + 2] * scales[row];
      }
      *reinterpret_cast<unsigned*>(scratch.inner + size_t(row) * I + group * 2) = pack(value[0], value[1]);
    });
  }

  __device__ __forceinline__ void take_inner() {
    for (int at = threadIdx.x; at < count * (I / 8); at += THREADS) {
      const int row = at / (I / 8), piece = at % (I / 8);
      *reinterpret_cast<uint4*>(x + row * PITCH + piece * 8) =
          __ldcg(reinterpret_cast<const uint4*>(scratch.inner + size_t(row) * I) + piece);
    }
    __syncthreads();
  }

  // The best of this block's share of the ids, for the `drawn` rows that draw: the greatest logit, noise added.
  __device__ __forceinline__ void draw(const int* drawing, int drawn, const float* noise) {
    __shared__ float2 found[WARPS][STREAMS];
    take(weights.norm, drawn, [&](int n) { return drawing[n]; }, [&](int row, int at) { return kept(row, at); });
    const int lane = threadIdx.x % 32, mine = lane / 4;
    float best = -infinite();
    int id = 0;
    products<H, PITCH>(weights.head, x, drawn, (V + 3) / 4, [](int group, int o) { return min(group * 4 + o, V - 1); },
                       [&](int, int group, const auto& sums) {
      const int token = group * 4 + lane % 4;
      float value = picked(sums, lane % 4, mine);
      if (mine >= drawn || token >= V) return;
      const Row& row = rows[drawing[mine]];
      const Stream& stream = streams[row.stream];
      value *= scales[mine];
      if (stream.noise >= 0) value = value * stream.scale + noise[size_t(stream.noise + row.draw) * V + token];
      if (value > best) best = value, id = token;
    });
#pragma unroll
    for (int by = 1; by < 4; by *= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, by);
      const int other_id = __shfl_xor_sync(0xffffffffu, id, by);
      if (other > best || (other == best && other_id < id)) best = other, id = other_id;
    }
    if (mine < STREAMS && lane % 4 == 0) found[threadIdx.x / 32][mine] = make_float2(best, __int_as_float(id));
    __syncthreads();
    if (threadIdx.x < drawn) {
      float2 all = found[0][threadIdx.x];
      for (int w = 1; w < WARPS; ++w) all = better(all, found[w][threadIdx.x]);
      reinterpret_cast<float2*>(scratch.best)[blockIdx.x * STREAMS + threadIdx.x] = all;
    }
  }

  // What the blocks found, once all have: every block has the drafts, and the first one puts them down.
  __device__ __forceinline__ void settle(const int* drawing, int drawn, int* tokens, int steps) {
    const int n = threadIdx.x / 32;
    if (n < drawn) {
      float2 all = make_float2(-infinite(), __int_as_float(0));
      for (int block = threadIdx.x % 32; block < gridDim.x; block += 32)
        all = better(all, __ldcg(reinterpret_cast<const float2*>(scratch.best) + block * STREAMS + n));
#pragma unroll
      for (int by = 16; by; by /= 2)
        all = better(all, make_float2(__shfl_xor_sync(0xffffffffu, all.x, by), __shfl_xor_sync(0xffffffffu, all.y, by)));
      if (threadIdx.x % 32 == 0) {
        const Row& row = rows[drawing[n]];
        const int token = min(max(__float_as_int(all.y), 0), V - 1);
        drafts[row.stream] = token;
        if (blockIdx.x == 0) tokens[row.stream * steps + row.draw] = token;
      }
    }
    __syncthreads();
  }

  __device__ static __forceinline__ float2 better(float2 one, float2 other) {
    const bool second = other.x > one.x || (other.x == one.x && __float_as_int(other.y) < __float_as_int(one.y));
    return second ? other : one;
  }
};

// Blocks of THREADS threads, one a multiprocessor. Dynamic shared memory: `held` of plan.py.
// schedule: passes and steps, STREAMS times (base, first row of noise or -1), then pass after pass how many rows it has and
// ROWS of them.
// scales [STREAMS]: 1 / temperature. angles [passes, ROWS, SIZE]. noise [rows, V]. turns [2], zeros.
// tokens [STREAMS, steps] and, after them, whether the chain was given up.
template <int L, int H, int HEADS, int KV, int SIZE, int I, int V, int ROWS, int TAIL>
__device__ __forceinline__ void draft_chain(const int* schedule, const float* scales, const float* angles, const float* noise,
                                            const int* turns, const float* eps, const Weights& weights,
                                            const bf16* const (&caches)[STREAMS], const int (&capacities)[STREAMS],
                                            bf16* const (&written)[STREAMS], const Scratch& scratch, int* tokens) {
  using Of = Chain<L, H, HEADS, KV, SIZE, I, V, ROWS, TAIL>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Stream streams[STREAMS];
  __shared__ Row rows[ROWS];
  __shared__ float norms[ROWS];
  __shared__ int drafts[STREAMS], drawing[STREAMS], drawn;
  unsigned* meeting = reinterpret_cast<unsigned*>(const_cast<int*>(turns));  // zeros that nobody else has
  unsigned due = 0;
  const int passes = schedule[0], steps = schedule[1];
#pragma unroll
  for (int s = 0; s < STREAMS; ++s)
    if (threadIdx.x == s)
      streams[s] = Stream{caches[s], written[s], capacities[s], schedule[2 + s * 2], schedule[3 + s * 2], scales[s]};
  Of chain{weights, scratch, streams, rows, reinterpret_cast<bf16*>(memory), norms, drafts, eps[0], 0};
  for (int pass = 0; pass < passes; ++pass) {
    const int* plan = schedule + 2 + STREAMS * 2 + pass * (1 + ROWS * FIELDS);
    __syncthreads();
    chain.count = plan[0];
    for (int at = threadIdx.x; at < chain.count * FIELDS; at += THREADS) reinterpret_cast<int*>(rows)[at] = plan[1 + at];
    __syncthreads();
    if (threadIdx.x == 0) {
      drawn = 0;
      for (int row = 0; row < chain.count; ++row)
        if (rows[row].draw >= 0) drawing[drawn++] = row;
    }
    __syncthreads();
    for (int layer = 0; layer < L; ++layer) {
      const bf16* norm = weights.attend_norms + layer * H;
      if (layer == 0) chain.take_tokens(norm);
      else chain.take_all(norm);
      chain.ask(layer, angles + size_t(pass) * ROWS * SIZE);
      meet(meeting, due);
      chain.look(layer);
      meet(meeting, due);
      chain.take_attended();
      chain.template add<Of::O>(weights.output + size_t(layer) * H * Of::O);
      meet(meeting, due);
      chain.take_all(weights.mlp_norms + layer * H);
      chain.gate(layer);
      meet(meeting, due);
      chain.take_inner();
      chain.template add<I>(weights.down + size_t(layer) * H * I);
      meet(meeting, due);
    }
    if (drawn) {
      chain.draw(drawing, drawn, noise);
      meet(meeting, due);
      chain.settle(drawing, drawn, tokens, steps);
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) tokens[STREAMS * steps] = seen(meeting + 1);
}

}  // namespace tf
