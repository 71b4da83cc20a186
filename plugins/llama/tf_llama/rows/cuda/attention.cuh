// Attention of up to 16 rows of one stream over its cache: keys in fixed splits, a block each, then the splits' sums.
//
// Where a split begins depends on the keys' positions alone, and keys that a row does not see add exactly nothing, so a
// row's bits depend on its own position only. A leaf stands at a position whose key in the cache is another token's; its
// own key lies further on, and a block of its own puts it in its place.
#pragma once
#include "common.cuh"

namespace tf {

// Splits of SHORT keys up to UNTIL_SHORT, where few of them would leave the device idle, of MIDDLE keys up to
// UNTIL_MIDDLE, and of LONG ones, whose sums cost little, from there on. plan.py says how many each is.
__device__ __forceinline__ int split_start(int split) {
  constexpr int A = UNTIL_SHORT / SHORT, B = A + (UNTIL_MIDDLE - UNTIL_SHORT) / MIDDLE;
  return split < A ? split * SHORT : split < B ? UNTIL_SHORT + (split - A) * MIDDLE : UNTIL_MIDDLE + (split - B) * LONG;
}

__device__ __forceinline__ int split_of(int position) {
  constexpr int A = UNTIL_SHORT / SHORT, B = A + (UNTIL_MIDDLE - UNTIL_SHORT) / MIDDLE;
  return position < UNTIL_SHORT    ? position / SHORT
         : position < UNTIL_MIDDLE ? A + (position - UNTIL_SHORT) / MIDDLE
                                   : B + (position - UNTIL_MIDDLE) / LONG;
}

// How a block keeps keys on their way: STAGES of 32 keys and values in shared memory.
template <int SIZE, int STAGES>
struct KeyStages {
  static constexpr int KEYS = 32, ROW = SIZE * 2 + 16, STAGE = 2 * KEYS * ROW, BYTES = STAGES * STAGE;
};

// One block's part: of key head kv a split of the keys, for all rows that stand in line, or, from `splits` on, a leaf.
//
// queries [rows, HEADS, SIZE], cache [2 KV, capacity, SIZE], keys over values; positions [rows], and places [leaves]: where
// the keys of the leaves are, which are the last rows.
// sums [splits, rows, HEADS, SIZE], weights [splits, rows, HEADS, 2]: greatest score and sum of powers of two.
// A warp a head; memory holds KeyStages<SIZE, STAGES>::BYTES.
template <int HEADS, int KV, int SIZE, int STAGES>
__device__ __forceinline__ void attend_part(unsigned memory, const bf16* queries, const bf16* cache, const int* positions,
                                            const int* places, float* sums, float* weights, int rows, int leaves, int capacity, int kv,
                                            int part, int splits) {
  using Stages = KeyStages<SIZE, STAGES>;
  constexpr int GROUP = HEADS / KV, KEYS = Stages::KEYS, STEPS = SIZE / 16, ROW = Stages::ROW;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = lane / 4, pair = lane % 4, head = kv * GROUP + warp;
  const bool mine = warp < GROUP;
  const int leaf = part - splits;  // of a block for one leaf, which; less than 0 elsewhere
  const int alone = rows - leaves + leaf;
  const int split = leaf < 0 ? part : split_of(positions[alone]);
  int last = leaf < 0 ? 0 : positions[alone];
  for (int row = 0; leaf < 0 && row < rows; ++row) last = max(last, positions[row]);
  const int begin = split_start(split), end = min(split_start(split + 1), last + 1);
  if (begin >= end) return;

  unsigned query[STEPS][4];
#pragma unroll
  for (int k = 0; k < STEPS; ++k)
#pragma unroll
    for (int of = 0; of < 4; ++of) {
      const int row = group + (of % 2) * 8, dim = k * 16 + (of / 2) * 8 + pair * 2;
      const unsigned* from = reinterpret_cast<const unsigned*>(queries + (size_t(row) * HEADS + head) * SIZE + dim);
      query[k][of] = mine && row < rows ? __ldcg(from) : 0u;
    }
  int seen[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = group + half * 8;
    seen[half] = row < rows && (leaf < 0 || row == alone) ? positions[row] : -1;
  }

  auto load = [&](int stage, int at) {
    if (at < end) {
#pragma unroll
      for (int which = 0; which < 2; ++which) {
        const unsigned to = memory + stage * Stages::STAGE + which * KEYS * ROW;
        for (int piece = threadIdx.x; piece < KEYS * SIZE / 8; piece += blockDim.x) {
          const int key = piece / (SIZE / 8), in_row = piece % (SIZE / 8);
          int place = min(at + key, last);  // what is past the last row is not seen, but must be there
          if (leaf >= 0 && place == last) place = places[leaf];
          copy_16(to + key * ROW + in_row * 16, cache + (size_t(which * KV + kv) * capacity + place) * SIZE + in_row * 8);
        }
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float output[SIZE / 8][4] = {}, greatest[2] = {-infinite(), -infinite()}, total[2] = {0.f, 0.f};
  const float scale = rsqrtf(float(SIZE)) * LOG2E;
#pragma unroll 1
  for (int stage = 0; stage < STAGES - 1; ++stage) load(stage, begin + stage * KEYS);
  int stage = 0;
  for (int at = begin; at < end; at += KEYS, stage = stage + 1 == STAGES ? 0 : stage + 1) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    load(stage == 0 ? STAGES - 1 : stage - 1, at + (STAGES - 1) * KEYS);
    if (!mine) continue;

    float score[KEYS / 8][4] = {};
    const unsigned keys = memory + stage * Stages::STAGE + ((lane / 16) * 8 + lane % 8) * ROW + ((lane / 8) % 2) * 16;
#pragma unroll
    for (int k = 0; k < STEPS; ++k)
#pragma unroll
      for (int two = 0; two < KEYS / 16; ++two) {
        unsigned b[4];
        load_matrices(b, keys + two * 16 * ROW + k * 32);
        multiply(score[two * 2], query[k], b[0], b[1]);
        multiply(score[two * 2 + 1], query[k], b[2], b[3]);
      }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = greatest[half];
#pragma unroll
      for (int tile = 0; tile < KEYS / 8; ++tile)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int key = at + tile * 8 + pair * 2 + c;
          float& one = score[tile][half * 2 + c];
          one = key <= seen[half] ? __fmul_rn(one, scale) : -infinite();
          most = fmaxf(most, one);
        }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float from_most = most == -infinite() ? 0.f : most;  // a row that sees nothing yet
      const float shrink = power_of_two(greatest[half] - from_most);
      greatest[half] = most;
      total[half] = __fmul_rn(total[half], shrink);
#pragma unroll
      for (int tile = 0; tile < KEYS / 8; ++tile)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& one = score[tile][half * 2 + c];
          one = power_of_two(one - from_most);
          total[half] += one;
        }
#pragma unroll
      for (int tile = 0; tile < SIZE / 8; ++tile) {
        output[tile][half * 2] *= shrink;
        output[tile][half * 2 + 1] *= shrink;
      }
    }

    const unsigned values = memory + stage * Stages::STAGE + KEYS * ROW + (((lane / 8) % 2) * 8 + lane % 8) * ROW + (lane / 16) * 16;
#pragma unroll
    for (int k = 0; k < KEYS / 16; ++k) {
      const unsigned a[4] = {pack(score[k * 2][0], score[k * 2][1]), pack(score[k * 2][2], score[k * 2][3]),
                             pack(score[k * 2 + 1][0], score[k * 2 + 1][1]), pack(score[k * 2 + 1][2], score[k * 2 + 1][3])};
#pragma unroll
      for (int two = 0; two < SIZE / 16; ++two) {
        unsigned b[4];
        load_matrices_turned(b, values + k * 16 * ROW + two * 32);
        multiply(output[two * 2], a, b[0], b[1]);
        multiply(output[two * 2 + 1], a, b[2], b[3]);
      }
    }
  }
  __syncthreads();  // all have read the last keys
  if (!mine) return;

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
    const int row = group + half * 8;
    if (row >= rows) continue;
    if (leaf < 0 ? row >= rows - leaves && split_of(positions[row]) == split : row != alone) continue;
    const size_t at = (size_t(split) * rows + row) * HEADS + head;
    if (pair == 0) {
      weights[at * 2] = greatest[half];
      weights[at * 2 + 1] = total[half];
    }
#pragma unroll
    for (int tile = 0; tile < SIZE / 8; ++tile)
      *reinterpret_cast<float2*>(sums + at * SIZE + tile * 8 + pair * 2) = make_float2(output[tile][half * 2], output[tile][half * 2 + 1]);
  }
}

// As many blocks (KV, splits + leaves) of HEADS / KV warps.
template <int HEADS, int KV, int SIZE>
__device__ __forceinline__ void attend_split(const bf16* queries, const bf16* cache, const int* positions, float* sums,
                                             float* weights, int rows, int leaves, int capacity) {
  __shared__ __align__(16) unsigned char memory[KeyStages<SIZE, 2>::BYTES];
  attend_part<HEADS, KV, SIZE, 2>(shared_at(memory), queries, cache, positions, positions + rows, sums, weights, rows, leaves, capacity,
                                  blockIdx.x, blockIdx.y, gridDim.y - leaves);
}

// The splits of one row and head, first to last: four numbers of y [rows, HEADS, SIZE] from `at` on.
template <int HEADS, int SIZE>
__device__ __forceinline__ void sum_parts(const float* sums, const float* weights, int splits, bf16* y, int rows, int row,
                                          int head, int at) {
  const size_t first = size_t(row) * HEADS + head, step = size_t(rows) * HEADS;
  float most = -infinite();
#pragma unroll 4
  for (int split = 0; split < splits; ++split) most = fmaxf(most, __ldcg(weights + (first + split * step) * 2));
  float output[4] = {}, total = 0.f;
#pragma unroll 4
  for (int split = 0; split < splits; ++split) {
    const size_t from = first + split * step;
    const float2 weight = __ldcg(reinterpret_cast<const float2*>(weights) + from);
    const float4 sum = __ldcg(reinterpret_cast<const float4*>(sums + from * SIZE + at));
    const float share = power_of_two(weight.x - most);
    total = fmaf(share, weight.y, total);
    output[0] = fmaf(share, sum.x, output[0]);
    output[1] = fmaf(share, sum.y, output[1]);
    output[2] = fmaf(share, sum.z, output[2]);
    output[3] = fmaf(share, sum.w, output[3]);
  }
  *reinterpret_cast<uint2*>(y + first * SIZE + at) =
      make_uint2(pack(output[0] / total, output[1] / total), pack(output[2] / total, output[3] / total));
}

// Of all rows. Blocks (HEADS, rows) of SIZE / 4 threads.
template <int HEADS, int SIZE>
__device__ __forceinline__ void attend_sum(const float* sums, const float* weights, const int* positions, bf16* y, int rows) {
  const int splits = split_of(positions[blockIdx.y]) + 1;
  sum_parts<HEADS, SIZE>(sums, weights, splits, y, rows, blockIdx.y, blockIdx.x, threadIdx.x * 4);
}

}  // namespace tf
