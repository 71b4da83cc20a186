// A whole chain of drafts in one launch: every step of up to four streams, without the host.
//
// A step of a small drafter is a hundred small operations that each wait for the last. Here they are passes of one grid
// whose blocks meet after every operation, a microsecond a meeting, with the next weights on their way meanwhile.
#pragma once
#include "drawing.cuh"
#include "layer.cuh"
#include "meeting.cuh"

namespace tf {

template <typename S>
__device__ __forceinline__ void run_layer(State<S>& s, int layer, bool drawing, const float* frequencies, Meeting& meeting) {
  const bf16* norm = s.weights.attend_norms + layer * S::H;
  if (layer == 0) take_tokens(s, norm);
  else take_all(s, norm);
  ask(s, layer, frequencies);
  meeting.meet();
  look(s, layer);
  s.ring.template start<Output<S>>(Output<S>::of(s.weights, layer));
  meeting.meet();
  take_attended(s);
  add<Output<S>>(s, layer);
  s.ring.template start<GateUp<S>>(GateUp<S>::of(s.weights, layer));
  meeting.meet();
  take_all(s, s.weights.mlp_norms + layer * S::H);
  gate(s, layer);
  s.ring.template start<Down<S>>(Down<S>::of(s.weights, layer));
  meeting.meet();
  take_inner(s);
  add<Down<S>>(s, layer);
  if (layer + 1 == S::L && drawing) s.ring.template start<Head<S>>(Head<S>::of(s.weights, 0));
  else s.ring.template start<Attend<S>>(Attend<S>::of(s.weights, (layer + 1) % S::L));
  meeting.meet();
}

// Whether nothing is left to read, and no stream of the pass goes on. Those of later passes are among them.
template <typename S>
__device__ __forceinline__ bool over(const State<S>& s) {
  bool all = true;
  for (int row = 0; row < s.count; ++row)
    all = all && s.rows[row].token < 0 && !(s.stands[s.rows[row].stream] >= s.streams[s.rows[row].stream].least);
  return all;
}

// Blocks of THREADS threads, one a multiprocessor. Dynamic shared memory: `memory` of plan.py.
// sent: STREAMS times 1 / temperature, as float32; STREAMS times the least chance, too; passes and steps; STREAMS times
// (base, first row of noise or -1); then pass after pass how many rows it has and ROWS of them. turns: a Meeting's. tokens
// [STREAMS, steps, BEST], -1 for steps that were not made; after them their probabilities, and whether the chain was given up.
template <int L, int H, int HEADS, int KV, int SIZE, int I, int V, int ROWS, int TAIL>
__device__ __forceinline__ void draft_chain(const int* sent, const float* frequencies, const float* noise,
                                            const int* turns, const float* eps, const Weights& weights,
                                            const bf16* const (&caches)[STREAMS], const int (&capacities)[STREAMS],
                                            bf16* const (&written)[STREAMS], const Scratch& scratch, int* tokens) {
  using S = Shape<L, H, HEADS, KV, SIZE, I, V, ROWS, TAIL>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ Stream streams[STREAMS];
  __shared__ Row rows[ROWS];
  __shared__ float norms[ROWS], stands[STREAMS];
  __shared__ int drafts[STREAMS], drawing[STREAMS], drawn;
  Meeting meeting(turns);
  const float *scales = reinterpret_cast<const float*>(sent), *leasts = scales + STREAMS;
  const int* schedule = sent + 2 * STREAMS;
  const int passes = schedule[0], steps = schedule[1];
#pragma unroll
  for (int n = 0; n < STREAMS; ++n)
    if (threadIdx.x == n)
      streams[n] = Stream{caches[n], written[n], capacities[n], schedule[2 + n * 2], schedule[3 + n * 2], scales[n], leasts[n]};
  if (threadIdx.x < STREAMS) stands[threadIdx.x] = 1.f;
  for (int at = threadIdx.x; blockIdx.x == 0 && at < STREAMS * steps * BEST; at += THREADS) tokens[at] = -1;
  const Ring ring = Ring::of(memory + S::RING_AT);
  State<S> s{weights, scratch, streams, rows, ring, reinterpret_cast<bf16*>(memory), norms, drafts, stands, eps[0], 0};
  ring.template start<Attend<S>>(Attend<S>::of(weights, 0));
  for (int pass = 0; pass < passes; ++pass) {
    const int* plan = schedule + 2 + STREAMS * 2 + pass * (1 + ROWS * FIELDS);
    __syncthreads();
    s.count = plan[0];
    for (int at = threadIdx.x; at < s.count * FIELDS; at += THREADS) reinterpret_cast<int*>(rows)[at] = plan[1 + at];
    __syncthreads();
    if (over(s)) break;
    if (threadIdx.x == 0) {
      drawn = 0;
      for (int row = 0; row < s.count; ++row)
        if (rows[row].draw >= 0) drawing[drawn++] = row;
    }
    __syncthreads();
    for (int layer = 0; layer < L; ++layer) run_layer(s, layer, drawn > 0, frequencies, meeting);
    if (drawn) {
      draw(s, drawing, drawn, noise);
      s.ring.template start<Attend<S>>(Attend<S>::of(weights, 0));
      meeting.meet();
      settle(s, drawing, drawn, noise, tokens, steps);
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");  // a pass that does not follow was started
  if (blockIdx.x == 0 && threadIdx.x == 0) tokens[2 * STREAMS * steps * BEST] = meeting.given_up();
}

}  // namespace tf
