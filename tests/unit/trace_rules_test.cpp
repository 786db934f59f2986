// That phases follow names, streams, threads and ranges, and that a user's rules come first.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/import/rules.h"
#include "sim/trace/span_names.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using testing::error_of;
using testing::event;
using ::testing::HasSubstr;
using testing::import_text;
using testing::kernel;
using testing::launch;
using testing::trace_of;

std::string phase_of(const ImportedTrace& trace, const std::string& kernel_name) {
  for (const TimelineSpan& span : trace.timeline.spans) {
    if (trace.timeline.name_of(span) == kernel_name) return to_string(span.phase);
  }
  return "no such span";
}

// The main thread (100) runs forward and the optimizer, the engine's (200) backward.
std::string training() {
  return trace_of(
      event("user_annotation", "ProfilerStep#1", "100", "100", "0", "1000"),
      event("user_annotation", "Optimizer.step#AdamW.step", "100", "100", "600", "100"),
      event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", "100", "200", "300",
            "20"),
      event("cpu_op", "autograd::engine::evaluate_function: AddBackward0", "100", "200", "330",
            "20"),
      launch("cudaLaunchKernel", "10", "5", 1), kernel("fwd_gemm", "20", "50", 1),
      launch("cudaLaunchKernel", "305", "5", 2, 200), kernel("bwd_gemm", "320", "50", 2),
      launch("cudaLaunchKernel", "610", "5", 3), kernel("adam", "620", "50", 3),
      kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "400", "50", 4),
      testing::copy("HtoD (Pinned -> Device)", "500", "5", 64, 5), kernel("orphan", "900", "5", 99),
      launch("cudaLaunchKernel", "950", "5", 6, 300), kernel("other_thread", "960", "5", 6));
}

TEST(TraceRules, AssignPhasesOfPyTorchTraining) {
  const ImportedTrace trace = import_text(training());
  EXPECT_EQ(phase_of(trace, "fwd_gemm"), "forward");
  EXPECT_EQ(phase_of(trace, "bwd_gemm"), "backward");
  EXPECT_EQ(phase_of(trace, "adam"), "optimizer");
  EXPECT_EQ(phase_of(trace, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), "collective");
  EXPECT_EQ(phase_of(trace, "Memcpy HtoD (Pinned -> Device)"), "copy");
  EXPECT_EQ(phase_of(trace, "orphan"), "unassigned");
  EXPECT_EQ(phase_of(trace, "other_thread"), "unassigned");
}

// What was captured is not known, backward maybe; a compiled model's forward is one.
TEST(TraceRules, AGraphIsForwardOnlyWhereSomethingSaysSo) {
  const auto phase_with = [](const std::string& operation) {
    return phase_of(import_text(trace_of(
                        event("user_annotation", "ProfilerStep#1", "100", "100", "0", "1000"),
                        event(operation.find('#') == operation.npos ? "cpu_op" : "user_annotation",
                              operation, "100", "100", "5", "50"),
                        launch("cudaGraphLaunch", "10", "5", 1), kernel("gemm", "20", "50", 1))),
                    "gemm");
  };
  EXPECT_EQ(phase_with("aten::zero_"), "unassigned");
  EXPECT_EQ(phase_with("Torch-Compiled Region: 0/0"), "forward");
  EXPECT_EQ(phase_with("CompiledFunctionBackward"), "backward");
  EXPECT_EQ(phase_with("## forward ##"), "forward");
}

// As libraries of recommenders and benchmarks write them.
TEST(TraceRules, NamesOfPassesMayBeDecorated) {
  const auto phase_in = [](const std::string& range) {
    return phase_of(
        import_text(trace_of(event("user_annotation", range, "100", "100", "0", "90"),
                             launch("cudaLaunchKernel", "10", "5", 1), kernel("k", "20", "50", 1))),
        "k");
  };
  EXPECT_EQ(phase_in("## forward ##"), "forward");
  EXPECT_EQ(phase_in("[param|alex_net|0|measure|forward]"), "forward");
  EXPECT_EQ(phase_in("## backward ##"), "backward");
  EXPECT_EQ(phase_in("layer 3: bwd_pass 12"), "backward");
  EXPECT_EQ(phase_in("feedforward"), "unassigned");
  EXPECT_EQ(phase_in("forwarding"), "unassigned");
}

TEST(TraceRules, AUsersRulesComeFirst) {
  const testing::TemporaryFolder folder;
  ImportOptions options;
  options.rules = read_rules(folder.write("rules.yaml", R"(
phases:
  - {phase: selection, kernel: "fwd_.*"}
  - {phase: other, kernel: "orphan", stream: 8}
  - {phase: optimizer, thread: "thread 300"}
  - {phase: backward, kernel: "adam", range: "ProfilerStep.*"}
)"));
  const ImportedTrace trace = import_text(training(), options);
  EXPECT_EQ(phase_of(trace, "fwd_gemm"), "selection");
  EXPECT_EQ(phase_of(trace, "orphan"), "unassigned") << "it ran on stream 7";
  EXPECT_EQ(phase_of(trace, "other_thread"), "optimizer");
  EXPECT_EQ(phase_of(trace, "adam"), "backward");
  EXPECT_EQ(phase_of(trace, "bwd_gemm"), "backward");
}

TEST(TraceRules, MistakesAreNamedWithTheirPlace) {
  const testing::TemporaryFolder folder;
  const auto message = [&](const std::string& text) {
    const auto path = folder.write("r.yaml", text);
    return error_of([&] { static_cast<void>(read_rules(path)); }).second;
  };
  EXPECT_THAT(message("phases:\n  - {phase: forwards, kernel: x}\n"),
              ::testing::AllOf(HasSubstr("r.yaml:2:"), HasSubstr("forward")));
  EXPECT_THAT(message("phases:\n  - {phase: forward, kernel: \"(\"}\n"),
              HasSubstr("expected a regular expression"));
  EXPECT_THAT(message("phases:\n  - {phase: forward, kernels: x}\n"), HasSubstr("kernels"));
  EXPECT_THAT(message("phases:\n  - {phase: forward}\n"), HasSubstr("expected kernel, range"));
  EXPECT_THAT(message("lanes:\n  - {lane: cpu_update}\n"), HasSubstr("either track or range"));
  EXPECT_THAT(message("step: [a]\n"), HasSubstr("step"));
  EXPECT_THAT(message("steps: [\"[\"]\n"), HasSubstr("expected a regular expression"));
  EXPECT_THAT(message("steps: my_step\n"), HasSubstr("r.yaml:1:8: steps: "));
  EXPECT_THAT(message("phases: {phase: forward, kernel: x}\n"), HasSubstr("r.yaml:1:9: phases: "));
  EXPECT_THAT(message("phases: [forward]\n"), HasSubstr("r.yaml:1:10: phases"));
  EXPECT_THAT(message("phases:\n  - {kernel: x}\n"), HasSubstr("phase"));
  EXPECT_THAT(message("phases:\n  - {phase: unassigned, kernel: x}\n"), HasSubstr("r.yaml:2:13: "));
  EXPECT_THAT(message("phases:\n  - {phase: forward, stream: -1}\n"), HasSubstr("r.yaml:2:30: "));
  EXPECT_THAT(message("phases:\n  - {phase: forward, stream: 7.5}\n"), HasSubstr("r.yaml:2:30: "));
  EXPECT_THAT(message("phases:\n  - {phase: forward, main_thread: 2}\n"),
              HasSubstr("r.yaml:2:35: "));
  EXPECT_THAT(message("phases:\n  - {phase: forward, phase: other, kernel: x}\n"),
              HasSubstr("r.yaml:2:"));
  EXPECT_THAT(message("phases:\n  - {phase: forward, main_thread: false}\n"),
              HasSubstr("expected kernel, range"));
  EXPECT_THAT(message("lanes:\n  - {lane: gpu, track: x}\n"), HasSubstr("cpu_update"));
  EXPECT_THAT(message("lanes:\n  - {lane: nvme, track: x, range: y}\n"),
              HasSubstr("either track or range"));
  EXPECT_THAT(message("[phases]\n"), HasSubstr("r.yaml:1:1"));
  EXPECT_THAT(message("phases: [\n"), HasSubstr("r.yaml:"));
}

// The standard library's matcher would leave its stack.
TEST(TraceRules, PatternsHaveALimit) {
  const testing::TemporaryFolder folder;
  const std::string deep = std::string(100'000, '(') + "a" + std::string(100'000, ')');
  const auto path = folder.write("deep.yaml", "steps: [\"" + deep + "\"]\n");
  EXPECT_THAT(error_of([&] { static_cast<void>(read_rules(path)); }).second,
              HasSubstr("of at most 1024 characters"));
  ImportOptions options;
  options.steps = deep;
  EXPECT_THAT(error_of([&] { static_cast<void>(import_text(training(), options)); }).second,
              HasSubstr("of at most 1024 characters"));
}

// What matches is remembered by name; long names are looked at in part.
TEST(TraceRules, LongNamesAreMatchedByTheirBeginning) {
  ImportOptions options;
  options.rules.phases.insert(options.rules.phases.begin(),
                              {.phase = SpanPhase::kOther, .kernel = "(a|b|ab)*"});
  std::string name;
  while (name.size() < 1'000'000) name += "ab";
  const ImportedTrace trace = import_text(trace_of(kernel(name, "1", "2", 1)), options);
  EXPECT_EQ(phase_of(trace, name), "other");
}

TEST(SpanNames, SayDirectionAndMemories) {
  const auto expect = [](const char* name, CopyDirection direction, MemoryKind from,
                         MemoryKind to) {
    EXPECT_EQ(copy_name(name), (CopyName{direction, from, to})) << name;
  };
  using D = CopyDirection;
  using M = MemoryKind;
  expect("Memcpy HtoD (Pinned -> Device)", D::kH2D, M::kPinned, M::kDevice);
  expect("Memcpy DtoH (Device -> Pageable)", D::kD2H, M::kDevice, M::kPageable);
  expect("Memcpy HtoD (Host -> Device)", D::kH2D, M::kHost, M::kDevice);
  expect("Memcpy PtoP (Device -> Device)", D::kPeer, M::kDevice, M::kDevice);
  expect("Memcpy HtoD (Pageable -> Array)", D::kH2D, M::kPageable, M::kDevice);
  expect("CopyHostToDevice", D::kH2D, M::kUnknown, M::kUnknown);
  expect("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", D::kH2D, M::kHost, M::kDevice);
  expect("Memcpy D2M (DEVICE -> HOST)", D::kD2H, M::kDevice, M::kHost);
  expect("[CUDA Unified Memory memcpy HtoD]", D::kH2D, M::kUnknown, M::kUnknown);
  expect("gpu_memcpy", D::kUnknown, M::kUnknown, M::kUnknown);
}

TEST(SpanNames, TellCollectivesFromOtherKernels) {
  EXPECT_TRUE(is_collective("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"));
  EXPECT_TRUE(is_collective("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"));
  EXPECT_TRUE(is_collective("all_gather 3"));
  EXPECT_FALSE(is_collective("void at::native::reduce_kernel<512, 1>"));
  EXPECT_FALSE(is_collective("all_gathering"));
  for (const char* name :
       {"void deep_ep::intranode::dispatch<8, 512>(int4*, float*)", "multimem_all_reduce_kernel",
        "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16>",
        "rcclGenericKernel", "mscclKernel_Sum_half_LL", "nvshmemi_reduce_kernel",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "tensorrt_llm::kernels::twoShotAllReduceKernel<half, 8, true>",
        "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport"}) {
    EXPECT_TRUE(is_collective(name)) << name;
  }
  for (const char* name :
       {"deep gemm", "void deep_gemm::fp8_gemm", "reduce_kernel", "allReduced"}) {
    EXPECT_FALSE(is_collective(name)) << name;
  }
}

}  // namespace
}  // namespace zenflow::sim
