// What a chain knows: its shape, its weights, where blocks leave numbers for one another, and the rows of its pass.
#pragma once
#include "dots.cuh"

namespace tf {

// One row of a pass. token: an id, or -1 for the stream's last draft. draw: the step whose draft this row gives, or -1.
struct Row {
  int stream, position, token, draw;
};

// Norms [L, H]; attend [L, ALL * SIZE, H], output [L, H, O], gate_up [L, 2 I, H], down [L, H, I]; table and head [V, H].
struct Weights {
  const bf16 *table, *attend_norms, *attend, *output, *mlp_norms, *gate_up, *down, *norm, *head;
};

// hidden [ROWS, H], queries [ROWS, O], sums [MOST_PARTS, ROWS, HEADS, SIZE], shares [MOST_PARTS, ROWS, HEADS, 2],
// inner [ROWS, I], found [blocks, STREAMS, BEST + 1, 2]. What other blocks wrote is read past the first cache.
struct Scratch {
  float *hidden, *queries, *sums, *shares;
  bf16* inner;
  float* found;
};

// A stream's keys and values: cache [L * 2 KV, capacity, SIZE], written [L * 2 KV, TAIL, SIZE] from `base` on.
// noise: its first row of noise, or -1. scale: 1 / temperature. least: its chain ends once the chance that all of its drafts
// stand is less.
struct Stream {
  const bf16* cache;
  bf16* written;
  int capacity, base, noise;
  float scale, least;
};

template <int L_, int H_, int HEADS_, int KV_, int SIZE_, int I_, int V_, int ROWS_, int TAIL_>
struct Shape {
  static constexpr int L = L_, H = H_, HEADS = HEADS_, KV = KV_, SIZE = SIZE_, I = I_, V = V_, ROWS = ROWS_, TAIL = TAIL_;
  static constexpr int GROUP = HEADS / KV, HALF = SIZE / 2, O = HEADS * SIZE, ALL = HEADS + 2 * KV;
  static constexpr int WIDEST = H > O ? (H > I ? H : I) : (O > I ? O : I), PITCH = WIDEST + 8;
  static constexpr int PARTS = O <= 1024 ? MOST_PARTS : MOST_PARTS / 2;  // every block reads all parts of all rows
  static constexpr int LEAST = WARPS * GROUP * (SIZE + 2) * 4, HELD = ROWS * PITCH * 2;  // bytes, for keys and for rows
  static constexpr int RING_AT = ((HELD > LEAST ? HELD : LEAST) + 127) / 128 * 128;
};

// weights and scratch aside, all of it is in the block's shared memory. x [ROWS, PITCH] are the rows to multiply, scales
// [ROWS] what their norms come to, drafts [STREAMS] the last drafts, stands [STREAMS] the chances that all of them so far
// stand, and the ring has the next product's first weights.
template <typename S>
struct State {
  const Weights& weights;
  const Scratch& scratch;
  const Stream* streams;
  const Row* rows;
  Ring ring;
  bf16* x;
  float* scales;
  int* drafts;
  float* stands;
  float eps;
  int count;
};

// A product with weights [N, K]: where they are for a layer, how many groups of outputs, and which those are.
template <typename S>
struct Attend {  // two numbers of a head and the two that they turn with
  static constexpr int K = S::H, GROUPS = S::ALL * S::HALF / 2;
  static __device__ __forceinline__ const bf16* of(const Weights& w, int layer) {
    return w.attend + size_t(layer) * S::ALL * S::SIZE * K;
  }
  static __device__ __forceinline__ int which(int group, int o) {
    return group / (S::HALF / 2) * S::SIZE + group % (S::HALF / 2) * 2 + (o / 2) * S::HALF + o % 2;
  }
};

template <typename S, int DEPTH>
struct Added {  // the hidden row's next four numbers
  static constexpr int K = DEPTH, GROUPS = S::H / 4;
  static __device__ __forceinline__ int which(int group, int o) { return group * 4 + o; }
};

template <typename S>
struct Output : Added<S, S::O> {
  static __device__ __forceinline__ const bf16* of(const Weights& w, int layer) { return w.output + size_t(layer) * S::H * S::O; }
};

template <typename S>
struct Down : Added<S, S::I> {
  static __device__ __forceinline__ const bf16* of(const Weights& w, int layer) { return w.down + size_t(layer) * S::H * S::I; }
};

template <typename S>
struct GateUp {  // two gates and their ups
  static constexpr int K = S::H, GROUPS = S::I / 2;
  static __device__ __forceinline__ const bf16* of(const Weights& w, int layer) {
    return w.gate_up + size_t(layer) * 2 * S::I * K;
  }
  static __device__ __forceinline__ int which(int group, int o) { return (o / 2) * S::I + group * 2 + o % 2; }
};

template <typename S>
struct Head {
  static constexpr int K = S::H, GROUPS = (S::V + 3) / 4;
  static __device__ __forceinline__ const bf16* of(const Weights& w, int) { return w.head; }
  static __device__ __forceinline__ int which(int group, int o) { return min(group * 4 + o, S::V - 1); }
};

}  // namespace tf
