// The operations of a layer, on the rows in shared memory.
#pragma once
#include "taking.cuh"

namespace tf {

// Queries into the scratch, keys and values to where they stay. frequencies [SIZE / 2]: angles of position 1.
template <typename S>
__device__ __forceinline__ void ask(State<S>& s, int layer, const float* frequencies) {
  products<Attend<S>, S::PITCH>(s.ring, Attend<S>::of(s.weights, layer), s.x, s.count, [&](int first, int group, const auto& sums) {
    const int lane = threadIdx.x % 32, row = first + lane, head = group / (S::HALF / 2), at = group % (S::HALF / 2) * 2;
    float value[4];
#pragma unroll
    for (int o = 0; o < 4; ++o) value[o] = picked(sums, o, lane);
    if (lane >= AT_ONCE || row >= s.count) return;
#pragma unroll
    for (int o = 0; o < 4; ++o) value[o] *= s.scales[row];
    if (head < S::HEADS + S::KV) {
#pragma unroll
      for (int o = 0; o < 2; ++o) {
        float sine, cosine;
        sincosf(float(s.rows[row].position) * frequencies[at + o], &sine, &cosine);
        const float turned = value[o] * cosine - value[o + 2] * sine;
        value[o + 2] = value[o] * sine + value[o + 2] * cosine;
        value[o] = turned;
      }
    }
    if (head < S::HEADS) {
      const float scale = rsqrtf(float(S::SIZE)) * LOG2E;
      float* to = s.scratch.queries + size_t(row) * S::O + head * S::SIZE + at;
      *reinterpret_cast<float2*>(to) = make_float2(value[0] * scale, value[1] * scale);
      *reinterpret_cast<float2*>(to + S::HALF) = make_float2(value[2] * scale, value[3] * scale);
    } else {
      const Stream& stream = s.streams[s.rows[row].stream];
      const int lane_of = layer * 2 * S::KV + head - S::HEADS, slot = s.rows[row].position - stream.base;
      bf16* to = stream.written + (size_t(lane_of) * S::TAIL + slot) * S::SIZE + at;
      *reinterpret_cast<unsigned*>(to) = pack(value[0], value[1]);
      *reinterpret_cast<unsigned*>(to + S::HALF) = pack(value[2], value[3]);
    }
  });
}

// Attention, a row and a key head a block, or a part of its keys.
template <typename S>
__device__ __forceinline__ void look(State<S>& s, int layer) {
  __shared__ float query[S::GROUP * S::SIZE];
  const int count = parts(s);
  for (int item = blockIdx.x; item < s.count * S::KV * count; item += gridDim.x) {
    const int row = item / (S::KV * count), kv = item / count % S::KV, part = item % count;
    const Stream& stream = s.streams[s.rows[row].stream];
    auto ready = [&] {
      for (int at = threadIdx.x; at < S::GROUP * S::SIZE; at += THREADS)
        query[at] = __ldcg(s.scratch.queries + size_t(row) * S::O + kv * S::GROUP * S::SIZE + at);
      __syncthreads();
    };
    const int keys = s.rows[row].position + 1, each = ((keys + count - 1) / count + 31) / 32 * 32;
    auto lane = [&](int which) {
      const size_t at = layer * 2 * S::KV + which * S::KV + kv;
      return Lane<S::SIZE>{stream.cache + at * stream.capacity * S::SIZE, stream.written + at * S::TAIL * S::SIZE, stream.base};
    };
    const size_t to = (size_t(part) * S::ROWS + row) * S::HEADS + kv * S::GROUP;
    attend<S::GROUP, S::SIZE>(Tile<S::SIZE>{s.ring.first()}, query, lane(0), lane(1), part * each, min(keys, part * each + each),
                              reinterpret_cast<float*>(s.x), s.scratch.sums + to * S::SIZE, s.scratch.shares + to * 2, ready);
  }
}

// hidden += the product.
template <typename Product, typename S>
__device__ __forceinline__ void add(State<S>& s, int layer) {
  products<Product, S::PITCH>(s.ring, Product::of(s.weights, layer), s.x, s.count, [&](int first, int group, const auto& sums) {
    const int lane = threadIdx.x % 32, row = first + lane / 4;
    const float value = picked(sums, lane % 4, lane / 4);
    if (lane >= 4 * AT_ONCE || row >= s.count) return;
    atomicAdd(s.scratch.hidden + size_t(row) * S::H + group * 4 + lane % 4, value);  // once, and nobody waits for it
  });
}

// silu(gate) * up into the scratch.
template <typename S>
__device__ __forceinline__ void gate(State<S>& s, int layer) {
  products<GateUp<S>, S::PITCH>(s.ring, GateUp<S>::of(s.weights, layer), s.x, s.count, [&](int first, int group, const auto& sums) {
    const int lane = threadIdx.x % 32, row = first + lane;
    float value[4];
#pragma unroll
    for (int o = 0; o < 4; ++o) value[o] = picked(sums, o, lane);
    if (lane >= AT_ONCE || row >= s.count) return;
#pragma unroll
    for (int o = 0; o < 2; ++o) {
      const float gated = value[o] * s.scales[row];
      value[o] = gated / (1.f + power_of_two(-gated * LOG2E)) * value[o + 2] * s.scales[row];
    }
    *reinterpret_cast<unsigned*>(s.scratch.inner + size_t(row) * S::I + group * 2) = pack(value[0], value[1]);
  });
}

}  // namespace tf
