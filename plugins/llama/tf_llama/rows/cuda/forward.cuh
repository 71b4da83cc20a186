// A whole forward in one launch: eight meetings of one grid a layer in place of ten kernels and more.
//
// It is made of the pieces that the kernels beside it are made of, so a row has the same bits through it as through them.
// What it saves is time: the next product's first weights are on their way while blocks still wait for one another. Each
// piece stands in it once, whatever calls it: all of its code has to fit the instruction cache.
#pragma once
#include "attention.cuh"
#include "between.cuh"
#include "meeting.cuh"
#include "shape.cuh"

namespace tf {

// The scales of the rows' norms from squares [count, CHUNKS]; there for everyone after a __syncthreads.
template <typename S>
__device__ __forceinline__ void take_scales(float* scales, const float* squares, float eps, int count) {
  if (int(threadIdx.x) >= count) return;
  float all = 0.f;
#pragma unroll
  for (int chunk = 0; chunk < S::CHUNKS; ++chunk) all += __ldcg(squares + threadIdx.x * S::CHUNKS + chunk);
  scales[threadIdx.x] = norm_scale<S::D>(all, eps);
}

// rows = their embeddings, or their sum with the slices of a product; the same times a norm's weight; and the squares.
// A warp a chunk of a row.
template <typename S>
__device__ __forceinline__ void put_rows(const Scratch& scratch, int count, const int* known, const int* tokens,
                                         const bf16* table, int slices, const bf16* norm) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int item = blockIdx.x + threadIdx.x / 32 * gridDim.x; item < count * S::CHUNKS; item += gridDim.x * S::THREADS / 32) {
    const int row = item / S::CHUNKS, at = item % S::CHUNKS * 32 + lane;
    float of = 0.f;
    if (at < S::D / 8) {
      const int token = slices ? 0 : min(max(known[row] < 0 ? tokens[row] : known[row], 0), S::V - 1);
      const bf16* old = slices ? scratch.rows : table + (ptrdiff_t(token) - row) * S::D;
      const Eight fresh = added<S::D, S::MOST_SLICES>(old, scratch.parts, slices, count, row, at);
      of = squared(fresh, 0.f);
      reinterpret_cast<Eight*>(scratch.rows + size_t(row) * S::D)[at] = fresh;
      reinterpret_cast<Eight*>(scratch.normed + size_t(row) * S::D)[at] = weighted(fresh, loaded(norm, at));
    }
    of = over_warp(of);
    if (lane == 0) scratch.squares[item] = of;
  }
}

// tokens [count], where the plan has not got them -> logits [count, V]. angles [positions, SIZE], cosines, then sines. layers: a
// Block each; caches: of each stream the addresses of its layers, [2 KV, capacity, SIZE] each, keys over values; the rows are
// written into them.
// Blocks of 256 threads, one a multiprocessor; dynamic shared memory: `width` of plan.py. Where blocks gave up waiting,
// logits are no numbers, and given_up[0] is 1; where they do so while the last ones meet, maybe only some logits are, and only
// the next launch says so.
template <typename S, typename Address, int STREAMS>
__device__ __forceinline__ void run_forward(const int* tokens, const float* angles, const int* plan, const bf16* table,
                                            const Address* layers, const bf16* norm, const bf16* head,
                                            const Address* const (&caches)[STREAMS], const float* eps, const int* turns,
                                            const Scratch& scratch, bf16* logits, int* given_up) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ bf16* layer_at[STREAMS];
  __shared__ float scales[16];
  __shared__ Plan<STREAMS> here;
  const Block* blocks = reinterpret_cast<const Block*>(layers);
  Meeting meeting(turns);
  for (int at = threadIdx.x; at < int(sizeof(here) / 4); at += S::THREADS) reinterpret_cast<int*>(&here)[at] = plan[at];
  __syncthreads();
  const int count = here.count;

  typename S::Multiply product(cut_of<S>(ATTEND), blocks[0].attend, shared_at(memory));
  int slices = 0, layer = 0;
  Step step = ATTEND;
  bool lost = false;
  product.start();
#pragma unroll 1
  while (true) {
    if (step != OUTPUT && step != DOWN) {
      put_rows<S>(scratch, count, plan + sizeof(here) / 4, tokens, table, slices,
                  step == ATTEND ? blocks[layer].attend_norm : step == GATE_UP ? blocks[layer].mlp_norm : norm);
      if (step == ATTEND) {
#pragma unroll
        for (int n = 0; n < STREAMS; ++n)
          if (threadIdx.x == n) layer_at[n] = reinterpret_cast<bf16*>(caches[n][layer]);
        // What comes from the device's memory while nothing else waits for it.
        if (blockIdx.x == 0 && layer + 1 < S::LAYERS) {
          const Block& next = blocks[layer + 1];
          const bf16* line = threadIdx.x < 128 ? blocks[layer].mlp_norm : next.attend_norm;
          for (int at = threadIdx.x % 128 * 64; at < S::D; at += 128 * 64)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(line + at) : "memory");
        }
      }
      meeting.meet();
      if (step == HEAD) lost = meeting.given_up();
    }
    const bf16* x = step == OUTPUT ? scratch.attended : step == DOWN ? scratch.inner : scratch.normed;
    product.take(x, count);
    if (step != OUTPUT && step != DOWN) take_scales<S>(scales, scratch.squares, eps[0], count);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    product.run(reinterpret_cast<float*>(memory), [&](int tile, int row, int output, float total) {
      if (step == OUTPUT || step == DOWN) {
        if (row < count && (S::D % 16 == 0 || tile * 16 + output < S::D))
          scratch.parts[(size_t(product.slice) * count + row) * S::D + tile * 16 + output] = total;
        return;
      }
      total = __fmul_rn(total, row < count ? scales[row] : 0.f);
      if (step == GATE_UP) {
        const float value = gated(total);
        if (row < count && output < 8) scratch.inner[size_t(row) * S::F + tile * 8 + output] = bf16(value);
      } else if (step == HEAD) {
        if (row < count && (S::V % 16 == 0 || tile * 16 + output < S::V))
          logits[size_t(row) * S::V + tile * 16 + output] = bf16(lost ? __int_as_float(0x7fffffff) : total);
      } else {
        const float other = __shfl_down_sync(0xffffffffu, total, 8, 16);
        if (row >= count || output >= 8) return;
        const int head = tile / (S::SIZE / 16), i = tile % (S::SIZE / 16) * 8 + output;
        float first = float(bf16(total)), second = float(bf16(other));
        const float* angle = angles + size_t(here.positions[row]) * S::SIZE + i;
        if (head < S::HEADS + S::KV) turn(first, second, angle[0], angle[S::SIZE / 2]);
        const int stream = here.streams[row], lane = head - S::HEADS;
        bf16* to = lane < 0 ? scratch.queries + (size_t(row) * S::HEADS + head) * S::SIZE
                            : layer_at[stream] + (size_t(lane) * here.stretches[stream].capacity + here.places[row]) * S::SIZE;
        to[i] = bf16(first);
        to[i + S::SIZE / 2] = bf16(second);
      }
    });
    if (step == HEAD) break;
    meeting.arrive();
    const Step did = step;
    layer += step == DOWN;
    step = step == ATTEND ? OUTPUT : step == OUTPUT ? GATE_UP : step == GATE_UP ? DOWN : layer < S::LAYERS ? ATTEND : HEAD;
    slices = did == OUTPUT ? S::OUTPUT_SLICES : S::DOWN_SLICES;
    const Block& next = blocks[step == HEAD ? 0 : layer];
    product = typename S::Multiply(cut_of<S>(step), step == ATTEND    ? next.attend
                                                    : step == OUTPUT  ? next.output
                                                    : step == GATE_UP ? next.gate_up
                                                    : step == DOWN    ? next.down
                                                                      : head, shared_at(memory));
    product.start();
    meeting.wait();
    if (did != ATTEND) continue;

#pragma unroll 1
    for (int item = blockIdx.x; item < here.parts * S::KV; item += gridDim.x) {
      int part = item / S::KV, stream = 0;
      while (part >= here.stretches[stream].splits + here.stretches[stream].leaves)
        part -= here.stretches[stream].splits + here.stretches[stream].leaves, ++stream;
      const Stretch of = here.stretches[stream];
      attend_part<S::HEADS, S::KV, S::SIZE, S::STAGES>(
          product.x_row(0), scratch.queries + size_t(of.begin) * S::WIDTH, layer_at[stream], here.positions + of.begin,
          here.places + of.begin + of.rows - of.leaves, scratch.sums + size_t(of.sums) * S::WIDTH,
          scratch.weights + size_t(of.sums) * S::HEADS * 2, of.rows, of.leaves, of.capacity, item % S::KV, part, of.splits);
    }
    meeting.meet();
#pragma unroll 1
    for (int item = blockIdx.x * S::THREADS + threadIdx.x; item < count * S::WIDTH / 4; item += gridDim.x * S::THREADS) {
      const int row = item / (S::WIDTH / 4), head = item / (S::SIZE / 4) % S::HEADS;
      const Stretch of = here.stretches[here.streams[row]];
      sum_parts<S::HEADS, S::SIZE>(scratch.sums + size_t(of.sums) * S::WIDTH, scratch.weights + size_t(of.sums) * S::HEADS * 2,
                                   split_of(here.positions[row]) + 1, scratch.attended + size_t(of.begin) * S::WIDTH, of.rows,
                                   row - of.begin, head, item % (S::SIZE / 4) * 4);
    }
    meeting.meet();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *given_up = lost;
}

}  // namespace tf
