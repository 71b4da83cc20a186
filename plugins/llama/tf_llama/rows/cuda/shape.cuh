// What a whole forward knows: its shape, its weights, where blocks leave numbers for one another, and the plan of its rows.
#pragma once
#include "linear.cuh"

namespace tf {

// The addresses of a layer. Norms [D]; attend [(HEADS + 2 KV) SIZE, D], output [D, HEADS SIZE], gate_up [2 F, D], down [D, F].
struct Block {
  const bf16 *attend_norm, *attend, *output, *mlp_norm, *gate_up, *down;
};

// What blocks leave for one another: rows [count, D], the same times a norm's weight, and their squares [count, D / 256];
// queries [count, HEADS, SIZE], sums and weights of attention by streams, attended [count, HEADS SIZE]; parts [slices,
// count, D], inner [count, F].
struct Scratch {
  bf16 *rows, *normed;
  float* squares;
  bf16* queries;
  float *sums, *weights;
  bf16* attended;
  float* parts;
  bf16* inner;
};

// The rows' plan. Consecutive rows of one stream, whose last `leaves` are leaves; sums: splits times rows of the streams before.
struct Stretch {
  int capacity, sums;
  short begin, rows, leaves, splits;
};

// Of a row: its position, where in its stream's cache it is written, and which stream that is. Behind it come the tokens of 16
// rows, each -1 where only `tokens` has them.
template <int STREAMS>
struct Plan {
  int count, parts;  // rows; of attention, splits and leaves of all streams
  Stretch stretches[STREAMS];
  int positions[16], places[16];
  signed char streams[16];
};

template <int D_, int HEADS_, int KV_, int SIZE_, int F_, int V_, int LAYERS_, int OUTPUT_SLICES_, int DOWN_SLICES_,
          typename Multiply_, int STAGES_>
struct ForwardShape {
  static constexpr int D = D_, HEADS = HEADS_, KV = KV_, SIZE = SIZE_, F = F_, V = V_, LAYERS = LAYERS_, WIDTH = HEADS * SIZE;
  static constexpr int OUTPUT_SLICES = OUTPUT_SLICES_, DOWN_SLICES = DOWN_SLICES_, STAGES = STAGES_;
  static constexpr int CHUNKS = (D + 255) / 256, THREADS = 256;
  static constexpr int MOST_SLICES = OUTPUT_SLICES > DOWN_SLICES ? OUTPUT_SLICES : DOWN_SLICES;
  using Multiply = Multiply_;
  static_assert(D <= 8192, "one warp a chunk of squares");
};

enum Step { ATTEND, OUTPUT, GATE_UP, DOWN, HEAD };

template <typename S>
__device__ __forceinline__ Cut cut_of(Step step) {
  switch (step) {
    case ATTEND: return {(S::HEADS + 2 * S::KV) * S::SIZE, S::D, 1, S::SIZE};
    case OUTPUT: return {S::D, S::WIDTH, S::OUTPUT_SLICES, 0};
    case GATE_UP: return {2 * S::F, S::D, 1, 2 * S::F};
    case DOWN: return {S::D, S::F, S::DOWN_SLICES, 0};
    default: return {S::V, S::D, 1, 0};
  }
}

}  // namespace tf
