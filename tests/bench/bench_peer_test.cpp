// Tests contenders in other processes. A contender that answers is timed and checked like the others. A
// contender that dies, hangs, writes nonsense or refuses is left out with its reason, while the others
// continue.
#include <doctest/doctest.h>
#include <unistd.h>

#include "kernels/bench/gemm_options.h"
#include "kernels/bench/peers/cublaslt.h"
#include "kernels/bench/peers/peer.h"
#include "kernels/measure/interleave.h"
#include "tests/kit/error_kit.h"

namespace ptxbuilder::test::bench_peer_test {
using namespace bench;

namespace {

constexpr const char* kMock = PTXBUILDER_MOCK_GEMM_GPU;

std::string fake(const std::string& mode = "") { return PTXBUILDER_FAKE_PEER " " + mode; }

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("no '", part, "' in: ", text);
  return found;
}

GemmProblem problem(const char* layout = "TN", DType input = DType::bf16, DType output = DType::bf16) {
  GemmProblem p;
  p.m = 24, p.n = 20, p.k = 41;  // rows of A and B are padded
  p.a = p.b = input;
  p.d = output;
  p.set_layout(layout);
  return p;
}

// Measures peers and a mock cuBLASLt on one problem after another.
struct Run {
  const Gpu gpu{kMock};
  Contenders contenders;
  Method method{gpu,
                nullptr,
                {.rounds = 6,
                 .burst_milliseconds = 0.1,
                 .least_launches = 1,
                 .warm_up_seconds = 0,
                 .rest_milliseconds = 0,
                 .seed = 5}};

  explicit Run(const std::vector<std::string>& commands, double limit = 20) {
    for (const std::string& command : commands)
      contenders.push_back(std::make_unique<Peer>(gpu, PeerCommand{command, command}, limit));
    contenders.push_back(std::make_unique<CublasLt>(gpu, kMock));
  }

  std::vector<Entry> measure(const GemmProblem& p = problem()) {
    const Regime regimes[] = {Regime::sustained};
    auto results = method.measure({"given", p}, regimes, contenders, "cuBLASLt", Clock::time_point::max());
    REQUIRE(results.size() == 1);
    CHECK(results[0].entries.back().counts());  // cuBLASLt must have results, whatever the peers do
    return results[0].entries;
  }
};

// Returns the benchmark's messages about misbehaving peers, which are measured together with a correct one.
std::vector<std::string> left_out(const std::vector<std::string>& modes, double limit = 20) {
  std::vector<std::string> commands, said;
  for (const std::string& mode : modes) commands.push_back(fake(mode));
  commands.push_back(fake());
  const std::vector<Entry> entries = Run(commands, limit).measure();
  for (size_t i = 0; i < modes.size(); ++i) {
    CAPTURE(modes[i]);
    CHECK(entries[i].samples.empty());
    CHECK(entries[i].wrong == "");
    said.push_back(entries[i].left_out);
  }
  CHECK(entries[modes.size()].counts());
  return said;
}

std::vector<std::string> at_each(const std::string& what, const std::vector<std::string>& verbs) {
  std::vector<std::string> modes;
  for (const std::string& verb : verbs) modes.push_back(what + ":" + verb);
  return modes;
}

}  // namespace

TEST_CASE("a peer gets the others' matrices, is checked, and times itself") {
  Run run({fake(), fake("wrong")});
  CHECK(static_cast<Peer&>(*run.contenders[0]).version() == "fake 0.1");
  for (const char* layout : {"TN", "NN", "NT", "TT"}) {
    CAPTURE(layout);
    for (const GemmProblem& p : {problem(layout), problem(layout, DType::f16, DType::f32)}) {
      const std::vector<Entry> entries = run.measure(p);
      CHECK(entries[0].left_out == "");
      CHECK(entries[0].wrong == "");
      CHECK(entries[0].configuration == "one thread of the host");
      REQUIRE(entries[0].samples.size() == 6);
      for (const Sample& sample : entries[0].samples) CHECK(sample.microseconds == 12.5);
      CHECK(entries[1].wrong != "");
      CHECK(entries[1].samples.empty());
    }
  }
}

TEST_CASE("a peer that dies is left out with its last words") {
  const std::vector<std::string> verbs = {"start", "problem", "launch", "burst", "fifth"};
  const std::vector<std::string> said = left_out(at_each("dies", verbs));
  for (size_t i = 0; i < verbs.size(); ++i) {
    CHECK(contains(said[i], "has ended: exit status 5"));
    CHECK(contains(said[i], "out of luck at " + verbs[i]));
  }
  const std::vector<Entry> entries = Run({"echo peer 1 shy; kill -9 $$", "/nowhere/peer"}).measure();
  CHECK(contains(entries[0].left_out, "signal 9"));
  CHECK(contains(entries[1].left_out, "exit status 127"));
}

TEST_CASE("a peer that hangs is ended and gets no more requests") {
  const auto start = Clock::now();
  for (const std::string& why : left_out(at_each("hangs", {"start", "problem", "launch", "fifth"}), 0.5))
    CHECK(contains(why, "has not answered within 0.5 s"));
  CHECK(Clock::now() - start < std::chrono::seconds(60));
  constexpr int kLimit = 4;  // in seconds; longer than the second call needs on a loaded machine
  Run run({fake("hangs:problem")}, kLimit);
  run.measure();
  const auto again = Clock::now();
  CHECK(contains(run.measure()[0].left_out, "has not answered within 4 s"));
  CHECK(Clock::now() - again < std::chrono::seconds(kLimit));
}

TEST_CASE("processes that a peer started end with it") {
  const Gpu gpu(kMock);
  const std::string note = "/tmp/bench_peer_test." + std::to_string(getpid());
  {
    Peer peer(gpu, {"parent", "sleep 600 & echo $! > " + note + "; echo peer 1 parent; wait"}, 20);
    CHECK(peer.version() == "parent");
  }
  std::FILE* file = std::fopen(note.c_str(), "r");
  REQUIRE(file);
  int child = 0;
  CHECK(std::fscanf(file, "%d", &child) == 1);
  std::fclose(file);
  std::remove(note.c_str());
  // The process has been killed, but its new parent may not have reaped it yet.
  std::string state = "gone";
  for (int i = 0; i < 100 && state != "dead"; ++i) {
    std::FILE* status = std::fopen(("/proc/" + std::to_string(child) + "/stat").c_str(), "r");
    char letter = 'X';
    if (status) {
      CHECK(std::fscanf(status, "%*d %*s %c", &letter) == 1);
      std::fclose(status);
    }
    if (letter == 'X' || letter == 'Z') state = "dead";
    usleep(10000);
  }
  CHECK(state == "dead");
}

TEST_CASE("a peer that writes nonsense is left out with its words") {
  std::vector<std::string> modes = at_each("nonsense", {"start", "problem", "launch", "fifth"});
  modes.push_back("zero");
  const std::vector<std::string> said = left_out(modes);
  CHECK(contains(said[0], "begins with '4711 and so on', not with 'peer 1'"));
  CHECK(contains(said[1], "answers '4711 and so on', and 'ready' or 'refused' is expected"));
  CHECK(contains(said[2], "and 'done' or 'refused' is expected"));
  CHECK(contains(said[3], "and 'time' or 'refused' is expected"));
  CHECK(contains(said[4], "answers 'time 0', which is not a number of microseconds"));
  const std::vector<Entry> entries = Run({"yes | tr -d '\\n'"}).measure();
  CHECK(contains(entries[0].left_out, "answers with a line that does not end"));
}

TEST_CASE("a peer that refuses says why, and gets further requests") {
  const std::vector<std::string> verbs = {"problem", "launch", "burst", "fifth"};
  const std::vector<std::string> said = left_out(at_each("refuses", verbs));
  for (size_t i = 0; i < verbs.size(); ++i) CHECK(said[i] == "it takes no " + verbs[i]);
  Run run({fake("refuses:problem")});
  for (int i = 0; i < 6; ++i) CHECK(run.measure()[0].left_out == "it takes no problem");
}

TEST_CASE("a peer that dies is restarted, but not for ever") {
  Run run({fake("dies:fifth")});
  for (int i = 0; i < 4; ++i) CHECK(contains(run.measure()[0].left_out, "out of luck at fifth"));
  CHECK(run.measure()[0].left_out == "it has died 4 times");
  CHECK(run.measure()[0].left_out == "it has died 4 times");
}

TEST_CASE("a peer computes attention of every form, is checked, and times itself") {
  Run run({fake(), fake("wrong"), fake("refuses:attention"), fake("dies:attention")});
  std::vector<AttentionProblem> problems(3);
  for (AttentionProblem& p : problems)
    p.batches = 2, p.queries = 9, p.keys = 12, p.heads = 4, p.key_heads = 2, p.depth = 24, p.value_depth = 16;
  problems[1].type = DType::bf16, problems[1].left = 2, problems[1].right = 1;
  problems[2].causal = true;
  problems[2].pack({3, 1, 9});
  const Regime regimes[] = {Regime::sustained};
  for (const AttentionProblem& p : problems) {
    CAPTURE(type_text(p));
    const std::vector<Entry> entries =
        run.method.measure({"given", p}, regimes, run.contenders, fake(), Clock::time_point::max())
            .at(0)
            .entries;
    CHECK(entries[0].wrong == "");
    CHECK(entries[0].configuration == "one thread of the host");
    CHECK(entries[0].samples.size() == 6);
    CHECK(entries[1].wrong != "");
    CHECK(entries[2].left_out == "it takes no attention");
    CHECK(contains(entries[3].left_out, "out of luck at attention"));
    CHECK(entries[4].left_out == "it takes matrix products alone");  // the entry of cuBLASLt
  }
}

TEST_CASE("the command line names peers") {
  const Options options =
      parse_gemm_options({"--peer", "A=run a --fast=yes", "--peer", "B=b", "--peer-limit", "7"});
  REQUIRE(options.peers.size() == 2);
  CHECK(options.peers[0].name == "A");
  CHECK(options.peers[0].command == "run a --fast=yes");
  CHECK(options.peers[1].name == "B");
  CHECK(options.peer_limit_seconds == 7);
  CHECK(parse_gemm_options({}).peers.empty());
  for (const char* wrong : {"A", "=b", "A="})
    CHECK_ERROR(parse_gemm_options({"--peer", wrong}), "is not NAME=COMMAND");
  CHECK_ERROR(parse_gemm_options({"--peer", "A=a", "--peer", "A=b"}), "A is given twice");
}

}  // namespace ptxbuilder::test::bench_peer_test
