// Tests finding and running ptxas: the real one, if it is installed, and misbehaving scripts in its place.
#include "ptxbuilder/compile/ptxas.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "error_kit.h"
#include "folder_kit.h"
#include "ptxas_kit.h"
#include "ptxbuilder/compile/assemble.h"
#include "ptxbuilder/compile/process.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::test::ptxas_test {
namespace fs = std::filesystem;

namespace {

const std::string version_130 =
    "echo 'Cuda compilation tools, release 13.0, V13.0.88'; echo 'Build cuda_13.0/1'";
const std::string version_124 =
    "echo 'Cuda compilation tools, release 12.4, V12.4.131'; echo 'Build cuda_12.4/1'";
const std::string version_123 =
    "echo 'Cuda compilation tools, release 12.3, V12.3.107'; echo 'Build cuda_12.3/1'";

// Returns a script that prints a version or, if it is called to assemble, runs `body`.
std::string fake(const std::string& body) {
  return "if [ \"$1\" = --version ]; then " + version_130 + "; exit 0; fi\n" + body;
}

PtxasSearch only(const std::string& file) {
  PtxasSearch search;
  search.file = file;
  return search;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) != -1;
  return count;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

// Returns the PTX of a kernel `k` with registers a0..a127, b0..b127, %r, %rd, %p and three pointers in %rd1,
// %rd2, %rd3.
std::string kernel(const std::string& body, const std::string& bounds = ".maxntid 128\n.minnctapersm 1\n",
                   const std::string& before = "") {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n" + before +
         ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 p3)\n" + bounds +
         "{\n.reg .f32 a<128>, b<128>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<16>;\n.reg .pred %p<8>;\n"
         "ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\nld.param.u64 %rd3, [p2];\nld.param.u32 %r1, "
         "[p3];\n" +
         body + "ret;\n}\n.file 1 \"kernels/sample.cpp\"\n";
}

const std::string fence = "wgmma.fence.sync.aligned;\n", commit = "wgmma.commit_group.sync.aligned;\n";
const std::string wait_all = "wgmma.wait_group.sync.aligned 0;\n";

// Returns one m64nNk16 with its N / 2 accumulators named after `set`.
std::string wgmma(int n, const std::string& set = "a", const std::string& a_operand = "%rd1") {
  std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) + "k16.f32.bf16.bf16 {";
  for (int i = 0; i < n / 2; ++i) text += (i ? "," : "") + set + std::to_string(i);
  return text + "}, " + a_operand + ", %rd2, 1, 1, 1, " + (a_operand[0] == '{' ? "0;\n" : "0, 0;\n");
}

std::string store(int n, const std::string& set = "a") {
  std::string text;
  for (int i = 0; i < n / 2; ++i) {
    text += "st.global.f32 [%rd3+" + std::to_string(4 * i) + "], " + set + std::to_string(i) + ";\n";
  }
  return text;
}

const std::string good_body = fence + wgmma(64) + commit + wait_all + store(64);
const std::string more_registers = "setmaxnreg.inc.sync.aligned.u32 232;\n";

std::string spilling() {
  std::string body;
  for (int i = 0; i < 100; ++i)
    body += "ld.global.f32 b" + std::to_string(i) + ", [%rd3+" + std::to_string(4 * i) + "];\n";
  body += "bar.sync 0;\n";
  for (int i = 0; i < 100; ++i) {
    body += "st.global.f32 [%rd3+" + std::to_string(4 * i) + "], b" + std::to_string(i * 37 % 100) + ";\n";
  }
  return kernel(body, ".maxnreg 32\n");
}

const std::string local_array = kernel(
    ".local .align 4 .b8 d[400];\nmov.u64 %rd4, d;\ncvt.u64.u32 %rd5, %r1;\nadd.u64 %rd6, %rd4, %rd5;\n"
    "st.local.u32 [%rd6], %r1;\nld.local.u32 %r3, [%rd4+16];\nst.global.u32 [%rd3], %r3;\n");

}  // namespace

TEST_CASE("ptxas is searched for in PATH, CUDA_PATH, then /usr/local, and nowhere else") {
  Folder folder;
  for (const char* name :
       {"local/cuda-12.9/bin", "local/cuda-13.0/bin", "local/cuda-13.10/bin", "local/cuda/bin"}) {
    fs::create_directories(folder.path(name));
  }
  PtxasSearch search;
  search.path = "/a/bin::/b/bin:";
  search.cuda_path = "/opt/cuda";
  search.install_folder = folder.path("local");
  const std::string local = folder.path("local");
  CHECK(search.candidates() ==
        std::vector<std::string>{"/a/bin/ptxas", "/b/bin/ptxas", "/opt/cuda/bin/ptxas",
                                 local + "/cuda/bin/ptxas", local + "/cuda-13.10/bin/ptxas",
                                 local + "/cuda-13.0/bin/ptxas", local + "/cuda-12.9/bin/ptxas"});
  search.file = "/exactly/this";
  CHECK(search.candidates() == std::vector<std::string>{"/exactly/this"});
}

TEST_CASE("without a ptxas the error says where it looked and how to get one") {
  Folder folder;
  PtxasSearch search;
  search.install_folder = "";
  std::string text = error_of([&] { Ptxas ptxas(search); });
  CHECK(contains(text, "PATH and CUDA_PATH are empty"));
  CHECK(contains(text, "PyPI's wheel nvidia-cuda-nvcc"));
  CHECK(contains(text, "CUDA_PATH"));

  std::ofstream(folder.path("ptxas")) << "not executable";
  folder.script("old/ptxas", version_123);
  search.path = folder.path("none") + ":" + folder.path("") + ":" + folder.path("old");
  search.cuda_path = folder.path("toolkit");
  search.install_folder = folder.path("local");
  text = error_of([&] { Ptxas ptxas(search); });
  CHECK(contains(text, folder.path("none") + "/ptxas: no such file"));
  CHECK(contains(text, folder.path("") + "/ptxas: not executable"));
  CHECK(contains(text, folder.path("toolkit") + "/bin/ptxas: no such file"));
  CHECK(contains(text, folder.path("local") + "/cuda/bin/ptxas: no such file"));
  CHECK(contains(text, "old/ptxas: is version 12.3.107"));
}

TEST_CASE("a ptxas that is too old or broken is skipped, unless it was requested") {
  Folder folder;
  const std::string old = folder.script("old/ptxas", version_123);
  const std::string crashing = folder.script("crashing/ptxas", "kill -SEGV $$");
  const std::string mute = folder.script("mute/ptxas", "exit 0");
  PtxasSearch search;
  search.install_folder = "";
  const std::string good = folder.script("new/ptxas", version_130);
  search.path = folder.path("old") + ":" + folder.path("crashing") + ":" + folder.path("mute") + ":" +
                folder.path("new");
  const Ptxas ptxas(search);
  CHECK(ptxas.path() == good);
  CHECK(ptxas.version() == PtxasVersion{13, 0, 88});
  CHECK(ptxas.build() == "13.0.88 cuda_13.0/1");

  CHECK(contains(error_of([&] { Ptxas one(only(old)); }), "is version 12.3.107"));
  CHECK(contains(error_of([&] { Ptxas one(only(crashing)); }), "exit status 139"));
  CHECK(contains(error_of([&] { Ptxas one(only(mute)); }), "does not print its version"));
  CHECK(error_of([&] { Ptxas one(only(good)); }) == "");
}

TEST_CASE("if none of CUDA 13 is found, the newest from 12.4 on is used") {
  Folder folder;
  PtxasSearch search;
  search.install_folder = folder.path("local");
  folder.script("old/ptxas", version_123);
  folder.script("first/ptxas", version_124);
  std::string version_129 = version_124;
  version_129.replace(version_129.find("V12.4.131"), 9, "V12.9.86 ");
  search.path = folder.path("old") + ":" + folder.path("first");
  CHECK(Ptxas(search).version() == PtxasVersion{12, 4, 131});
  const std::string newer = folder.script("local/cuda-12.9/bin/ptxas", version_129);
  CHECK(Ptxas(search).path() == newer);
  CHECK(Ptxas(search).build() == "12.9.86 cuda_12.4/1");
  const std::string preferred = folder.script("local/cuda/bin/ptxas", version_130);
  CHECK(Ptxas(search).path() == preferred);
  CHECK(Ptxas(only(folder.path("first/ptxas"))).version() == PtxasVersion{12, 4, 131});
}

TEST_CASE("the version is requested once and then found in the cache, until the file changes") {
  Folder folder;
  const std::string file = folder.script("ptxas", "echo asked >> " + folder.path("log") + "\n" + version_130);
  auto asked = [&] {
    std::ifstream log(folder.path("log"));
    return std::count(std::istreambuf_iterator<char>(log), {}, '\n');
  };
  Cache cache({folder.path("cache")});
  for (int i = 0; i < 3; ++i) CHECK(Ptxas(only(file), &cache).version() == PtxasVersion{13, 0, 88});
  CHECK(asked() == 1);
  CHECK(Ptxas(only(file)).build() == Ptxas(only(file), &cache).build());
  CHECK(asked() == 2);
  std::string newer = version_130;  // as long as the first, and in the same file
  newer.replace(newer.find("V13.0.88"), 8, "V13.5.37");
  folder.script("ptxas", "echo asked >> " + folder.path("log") + "\n" + newer);
  CHECK(Ptxas(only(file), &cache).version() == PtxasVersion{13, 5, 37});
}

TEST_CASE("the arguments come from the PTX text and the options") {
  using Words = std::vector<std::string>;
  CHECK(Ptxas::arguments(".version 8.0\n.target sm_90a\n", {}) == Words{"-v", "-arch=sm_90a", "-O3"});
  CHECK(Ptxas::arguments("  .target\tsm_100f, debug // x\n", {}) == Words{"-v", "-arch=sm_100f", "-O3"});
  PtxasOptions options;
  options.optimization = 1;
  options.line_info = true;
  CHECK(Ptxas::arguments(".target sm_90", options) == Words{"-v", "-arch=sm_90", "-O1", "-lineinfo"});
  CHECK(contains(error_of([] { Ptxas::arguments("", {}); }), "no `.target sm_...`"));
  CHECK(contains(error_of([] { Ptxas::arguments(".target -o/etc/x\n", {}); }), "found '-o'"));
  options.optimization = 4;
  CHECK(
      contains(error_of([&] { Ptxas::arguments(".target sm_90", options); }), "the optimization level is 4"));
}

TEST_CASE("a program receives its input and returns its output, however large") {
  using std::chrono::seconds;
  std::string large(20 << 20, 'x');
  for (size_t i = 0; i < large.size(); i += 64) large[i] = '\n';
  ProcessResult result = run_process({"/bin/cat"}, large, seconds(60));
  CHECK(result.exit_status == 0);
  CHECK((result.output == large));
  CHECK(result.messages == "");
  result = run_process({"/bin/sh", "-c", "cat /dev/stdin >&2; cat /dev/stdin > /dev/stdout; exit 7"}, large,
                       seconds(60));
  CHECK(result.exit_status == 7);
  CHECK((result.messages == large));
  CHECK((result.output == large));
  result = run_process({"/bin/sh", "-c", "exit 3"}, large,
                       seconds(60));  // the process reads nothing, which must not cause SIGPIPE here
  CHECK(result.exit_status == 3);
  CHECK(run_process({"/bin/sh", "-c", "kill -ABRT $$"}, "", seconds(60)).exit_status == 128 + 6);
  CHECK(contains(error_of([] { run_process({"/no/such/program"}, "", std::chrono::seconds(1)); }),
                 "/no/such/program: starting it failed: No such file or directory"));
}

TEST_CASE("a program that does not end is killed and reaped, and nothing leaks") {
  Folder folder;
  const int before = open_descriptors();
  const auto start = std::chrono::steady_clock::now();
  for (const char* body : {"exec sleep 100", "exec sleep 100 2>&-", "while :; do :; done"}) {
    CAPTURE(body);
    const Ptxas ptxas(only(folder.script("ptxas", fake(body))));
    PtxasOptions options;
    options.time_limit = std::chrono::milliseconds(200);
    CHECK(contains(error_of([&] { ptxas.assemble(kernel(""), options); }),
                   "it was killed because it had not finished after 200 ms"));
    CHECK_FALSE(has_children());
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  for (int i = 0; i < 10; ++i) {
    error_of([] { run_process({"/no/such/program"}, "", std::chrono::seconds(1)); });
    run_process({"/bin/true"}, "", std::chrono::seconds(10));
  }
  CHECK_FALSE(has_children());
  CHECK(open_descriptors() == before);
}

TEST_CASE("children get none of this library's descriptors but their own three, from many threads at once") {
  auto descriptors = [](const std::string& input) {
    ProcessResult result =
        run_process({"/bin/sh", "-c", "cat; ls /proc/self/fd >&2; ls -l /proc/self/fd >&2"}, input,
                    std::chrono::seconds(60));
    CHECK(result.output == input);
    size_t memory_files = 0;  // standard input; standard output is redirected
    for (size_t at = 0; (at = result.messages.find("memfd:", at)) != std::string::npos; ++at) ++memory_files;
    return std::pair(result.messages.substr(0, result.messages.find("total")), memory_files);
  };
  const auto alone = descriptors("alone");  // the descriptors that this test itself has inherited
  CHECK(alone.second == 1);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) wrong += descriptors(std::to_string(100 * i + round)) != alone;
    });
  }
  threads.clear();
  CHECK(wrong == 0);
}

TEST_CASE(
    "a process with closed standard streams can run programs, and its own output does not get into them") {
  pid_t child = fork();
  if (child == 0) {
    for (int fd : {0, 1, 2}) close(fd);
    ProcessResult result = run_process({"/bin/sh", "-c", "cat; ls /proc/$PPID/fd | head -n 1 >&2"}, "in",
                                       std::chrono::seconds(60));
    _exit(result.output != "in" ? 1 : std::atoi(result.messages.c_str()) < 3 ? 2 : 0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a ptxas that fails without a message still gives a useful error") {
  Folder folder;
  const std::string crash = folder.script("crash", fake("echo what happened >&2; kill -SEGV $$"));
  std::string text = error_of([&] { Ptxas(only(crash)).assemble(kernel("")); });
  CHECK(contains(text, "cannot assemble kernel 'k'"));
  CHECK(contains(text, "exit status 139"));
  CHECK(contains(text, "what happened"));
  const std::string silent = folder.script("silent", fake("exit 0"));  // success, but no cubin
  CHECK(contains(error_of([&] { Ptxas(only(silent)).assemble(kernel("")); }), "exit status 0"));
  const std::string fine = folder.script("fine", fake("printf '\\177ELF....'"));
  CHECK(Ptxas(only(fine)).assemble(kernel("")).cubin ==
        "\x7f"
        "ELF....");
}

TEST_CASE("assemble() keeps its results, and works without a cache that cannot be written") {
  Folder folder;
  const std::string file = folder.script(
      "ptxas", fake("echo run >> " + folder.path("runs") +
                    "; echo 'ptxas info    : (C7508) x: 'setmaxnreg' ignored; unable to determine "
                    "register count at entry.' | sed \"s/setmaxnreg/'&'/\" >&2; printf '\\177ELF'; cat"));
  auto runs = [&] {
    std::ifstream log(folder.path("runs"));
    return std::count(std::istreambuf_iterator<char>(log), {}, '\n');
  };
  const Ptxas ptxas(only(file));
  Cache cache({folder.path("cache")});
  AssembleOptions waived;
  waived.waived = {"C7508"};

  Assembled first = assemble(ptxas, &cache, kernel(more_registers), waived);
  Assembled second = assemble(ptxas, &cache, kernel(more_registers), waived);
  CHECK(runs() == 1);
  CHECK_FALSE(first.from_cache);
  CHECK(second.from_cache);
  CHECK(second.cubin == first.cubin);
  CHECK(second.notes.messages.size() == 1);
  CHECK(second.cache_problem == "");
  // Cached results are checked too, and a waiver does not change the key.
  CHECK(contains(error_of([&] { assemble(ptxas, &cache, kernel(more_registers)); }), "C7508"));
  CHECK(runs() == 1);

  assemble(ptxas, &cache, kernel(more_registers + "\n"), waived);  // a different text
  CHECK(runs() == 2);
  waived.ptxas.optimization = 2;  // a different option
  assemble(ptxas, &cache, kernel(more_registers), waived);
  CHECK(runs() == 3);
  waived.ptxas.optimization = 3;
  CHECK_FALSE(assemble(ptxas, nullptr, kernel(more_registers), waived).from_cache);  // no cache
  CHECK(runs() == 4);

  std::ofstream(folder.path("file")) << "";
  Cache broken({folder.path("file") + "/cache"});
  Assembled result = assemble(ptxas, &broken, kernel(more_registers), waived);
  CHECK(result.cubin == first.cubin);
  CHECK_FALSE(result.from_cache);
  CHECK(contains(result.cache_problem, "the directory could not be created"));

  // A damaged entry must be compiled again.
  for (const auto& entry : fs::directory_iterator(folder.path("cache"))) {
    if (entry.file_size() > 64) fs::resize_file(entry.path(), entry.file_size() - 1);
  }
  CHECK_FALSE(assemble(ptxas, &cache, kernel(more_registers), waived).from_cache);
  CHECK(assemble(ptxas, &cache, kernel(more_registers), waived).from_cache);

  // A ptxas of another version must not get the results of this one.
  const Ptxas other(only(
      folder.script("other", "if [ $1 = --version ]; then echo ', V13.1.80'; else printf '\\177ELF'; fi")));
  CHECK_FALSE(assemble(other, &cache, kernel(more_registers), waived).from_cache);
}

TEST_CASE("assemble_all() keeps the order and reports every failure") {
  Folder folder;
  const std::string file =
      folder.script("ptxas", fake("cat > " + folder.path("in") +
                                  ".$$\n"
                                  "if grep -q BAD " +
                                  folder.path("in") +
                                  ".$$; then\n"
                                  "  line=$(grep BAD " +
                                  folder.path("in") +
                                  ".$$ | head -n 1)\n"
                                  "  echo \"ptxas /dev/stdin, line 3; error   : $line\" >&2; exit 255\n"
                                  "fi\nprintf '\\177ELF'; cat " +
                                  folder.path("in") + ".$$"));
  const Ptxas ptxas(only(file));
  std::vector<AssembleJob> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back({".target sm_90a\n// job " + std::to_string(i) + "\n", {}});
  for (unsigned threads : {0u, 1u, 3u, 64u}) {
    std::vector<Assembled> results = assemble_all(ptxas, nullptr, jobs, threads);
    REQUIRE(results.size() == 20);
    for (int i = 0; i < 20; ++i)
      CHECK(results[i].cubin ==
            "\x7f"
            "ELF" +
                jobs[i].ptx);
  }
  CHECK(assemble_all(ptxas, nullptr, {}).empty());

  jobs[4].ptx += "BAD four\n";
  jobs[17].ptx += "BAD seventeen\n";
  std::string text = error_of([&] { assemble_all(ptxas, nullptr, jobs); });
  CHECK(contains(text, "2 of 20 kernels failed"));
  CHECK(contains(text, "BAD four"));
  CHECK(contains(text, "BAD seventeen"));
  auto results = try_assemble_all(ptxas, nullptr, jobs);
  for (int i = 0; i < 20; ++i) CHECK(std::holds_alternative<Error>(results[i]) == (i == 4 || i == 17));
}

TEST_CASE("the real ptxas assembles a wgmma kernel") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  MESSAGE(ptxas->path() << ", " << ptxas->build());
  Folder folder;
  Cache cache({folder.path("cache")});
  Assembled result = assemble(*ptxas, &cache, kernel(good_body));
  CHECK(
      result.cubin.starts_with("\x7f"
                               "ELF"));
  CHECK(result.notes.messages.empty());
  CHECK(result.notes.entry() == "k");
  CHECK(result.registers >= 32);
  CHECK(result.registers <= 168);
  CHECK(result.spill_bytes == 0);
  CHECK(result.stack_bytes == 0);
  Assembled again = assemble(*ptxas, &cache, kernel(good_body));
  CHECK(again.from_cache);
  CHECK(again.cubin == result.cubin);
  CHECK(again.registers == result.registers);
  CHECK(assemble(*ptxas, nullptr, kernel(good_body)).cubin == result.cubin);
  MESSAGE("ptxas: " << result.milliseconds << " ms, cache: " << again.milliseconds << " ms");
}

TEST_CASE("the real ptxas's errors name the C++ line") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  std::string text = error_of([&] {
    ptxas->assemble(kernel(".loc 1 10 3\nadd.u32 %r1, %r2;\n.loc 1 12 3\nnot.an.instruction %r1;\n"));
  });
  CHECK(contains(text, "cannot assemble kernel 'k'"));
  CHECK(contains(text, "ptxas error at sample.cpp:10: Arguments mismatch for instruction 'add'"));
  CHECK(contains(text, "at sample.cpp:12: "));
  CHECK_FALSE(contains(text, "aborted"));
  CHECK(error_of([&] { ptxas->assemble(kernel(".loc 1 10 3\nadd.u32 %r1, %r2, %r3;\n")); }) == "");

  std::string wrong_target = kernel(".loc 1 14 3\n" + good_body);
  wrong_target.replace(wrong_target.find("sm_90a"), 6, "sm_90");
  text = error_of([&] { ptxas->assemble(wrong_target); });
  CHECK(contains(text, "at sample.cpp:14: Instruction 'wgmma.fence' not supported on .target 'sm_90'"));
  CHECK(contains(text, "wgmma needs sm_90a, not plain sm_90, and tcgen05 needs sm_100a"));

  text = error_of([&] { ptxas->assemble(".version 99.0\n.target sm_90a\n"); });
  CHECK(contains(text, "Unsupported .version 99.0"));
  CHECK(contains(text, "newer PTX ISA"));
  text = error_of([&] {
    ptxas->assemble(kernel(".loc 1 15 3\n" + fence + wgmma(256) + commit + wait_all + store(256),
                           ".maxntid 1024\n.minnctapersm 1\n"));
  });
  CHECK(contains(text, "C7602 at sample.cpp:15: Insufficient registers"));
}

TEST_CASE("the real ptxas's advisories are errors, each with its twin that passes") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  const std::string extern_printf = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n";
  const std::string print =
      "{ .param .b64 q0; .param .b64 q1; .param .b32 rv;\nst.param.b64 [q0], %rd1;\nst.param.b64 [q1], "
      "%rd2;\n"
      "call.uni (rv), vprintf, (q0, q1);\n}\n";
  const std::string loop_end = "sub.u32 %r1, %r1, 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra LOOP;\n";
  const std::string a_registers = "{%r10,%r11,%r12,%r13}";
  std::string set_a;
  for (int i = 10; i < 14; ++i) set_a += "mov.b32 %r" + std::to_string(i) + ", %r1;\n";
  const std::string bounds = ".maxntid 128\n.minnctapersm 1\n", loc = ".loc 1 77 1\n";
  const std::string change_a =
      "add.u32 %r10, %r10, %r1;\nadd.u32 %r11, %r11, %r12;\nsetp.ne.u32 %p1, %r11, 0;\n@%p1 bra LOOP;\n";
  const std::string rs_start = set_a + "LOOP:\n" + fence + wgmma(64, "a", a_registers) + commit;
  struct Case {
    const char* code;
    std::string bad, good;
  };
  const Case cases[] = {
      {"C7507", kernel("setmaxnreg.dec.sync.aligned.u32 24;\n" + good_body),
       kernel(more_registers + good_body)},
      {"C7508", kernel(more_registers + good_body, ""),
       kernel(more_registers + good_body, ".maxntid 128\n.maxnreg 128\n")},
      {"C7510",
       kernel(loc + fence + wgmma(64) + commit + print + wait_all + store(64), bounds, extern_printf),
       kernel(good_body, bounds, extern_printf)},
      {"C7511",
       kernel(fence + wgmma(256) + wgmma(256, "b") + commit + wait_all + store(256) + store(256, "b")),
       kernel(fence + wgmma(128) + wgmma(128, "b") + commit + wait_all + store(128) + store(128, "b"))},
      {"C7513", kernel(rs_start + "wgmma.wait_group.sync.aligned 1;\n" + change_a + wait_all + store(64)),
       kernel(rs_start + wait_all + change_a + store(64))},
      {"C7514",
       kernel("LOOP:\n" + wgmma(64) + commit + loop_end + "wgmma.wait_group.sync.aligned 1;\n" + store(64)),
       kernel("LOOP:\n" + fence + wgmma(64) + commit + wait_all + loop_end + store(64))},
      {"C7515",
       kernel("LOOP:\n" + fence + wgmma(64) + commit + "ld.global.f32 a2, [%rd3];\n" + loop_end + wait_all +
              store(64)),
       kernel("LOOP:\nld.global.f32 a2, [%rd3];\n" + fence + wgmma(64) + commit + wait_all + loop_end +
              store(64))},
      {"C7517", kernel(fence + wgmma(64) + commit + store(64) + wait_all), kernel(good_body)},
      {"C7518",
       kernel("mov.u32 %r2, %tid.x;\nsetp.eq.u32 %p2, %r2, %r1;\n@%p2 bra SKIP;\n" + fence + wgmma(64) +
              commit + "st.global.f32 [%rd3], a0;\nSKIP:\n" + wait_all + store(64)),
       kernel("setp.eq.u32 %p2, %r1, 0;\n@%p2 bra SKIP;\n" + fence + wgmma(64) + commit + wait_all +
              "st.global.f32 [%rd3], a0;\nSKIP:\n" + store(64))},
      {"C7520",
       kernel("mov.u32 %r2, %tid.x;\n" + fence + "LOOP:\nsetp.eq.u32 %p2, %r2, %r1;\n" + wgmma(64) + commit +
              "sub.u32 %r2, %r2, 1;\n@%p2 bra LOOP;\n" + store(64)),
       kernel("LOOP:\n" + fence + wgmma(64) + commit + wait_all + loop_end + store(64))},
  };
  for (const Case& one : cases) {
    CAPTURE(one.code);
    const std::string text = error_of([&] { assemble(*ptxas, nullptr, one.bad); });
    CHECK_MESSAGE(contains(text, std::string("ptxas info ") + one.code), text);
    CHECK_MESSAGE(contains(text, std::string("waive \"") + one.code + "\""), text);
    CHECK(error_of([&] { assemble(*ptxas, nullptr, one.good); }) == "");
  }
  CHECK(contains(error_of([&] { assemble(*ptxas, nullptr, cases[2].bad); }), "sample.cpp:77"));

  // ptxas 13.0 reports when it adds a fence; later versions add it silently.
  const std::string no_fence =
      kernel("ld.global.f32 a1, [%rd3];\n" + wgmma(64) + commit + wait_all + store(64));
  const std::string text = error_of([&] { assemble(*ptxas, nullptr, no_fence); });
  if (ptxas->version() < PtxasVersion{13, 1, 0}) CHECK(contains(text, "ptxas info C7519"));
}

TEST_CASE("the real ptxas's spills and stack are errors, each with its twin that passes") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  AssembleOptions waive_both;
  waive_both.waived = {"spills", "stack"};
  CHECK(contains(error_of([&] { assemble(*ptxas, nullptr, spilling()); }), "bytes of spill stores"));
  const Assembled spilled = assemble(*ptxas, nullptr, spilling(), waive_both);
  CHECK(spilled.registers == 32);
  CHECK(spilled.spill_bytes > 0);
  std::string roomy = spilling();
  roomy.replace(roomy.find(".maxnreg 32"), 11, ".maxnreg 255");
  CHECK(assemble(*ptxas, nullptr, roomy).spill_bytes == 0);

  CHECK(contains(error_of([&] { assemble(*ptxas, nullptr, local_array); }), "400 bytes of stack"));
  CHECK(assemble(*ptxas, nullptr, local_array, waive_both).stack_bytes == 400);
}

TEST_CASE("many threads use one real ptxas and one cache") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  Folder folder;
  Cache cache({folder.path("cache")});
  std::vector<AssembleJob> jobs;
  for (int i = 0; i < 24; ++i) {  // 8 different kernels, each three times
    jobs.push_back(
        {kernel("add.u32 %r1, %r1, " + std::to_string(i % 8) + ";\nst.global.u32 [%rd3], %r1;\n"), {}});
  }
  std::vector<Assembled> results = assemble_all(*ptxas, &cache, jobs, 12);
  for (int i = 0; i < 24; ++i) {
    CHECK(results[i].cache_problem == "");
    CHECK(results[i].cubin == results[i % 8].cubin);
    CHECK((i % 8 == 0) == (results[i].cubin == results[0].cubin));
  }
  CHECK(cache.statistics().entries == 8);
  CHECK_FALSE(has_children());
}

TEST_CASE("a text of several megabytes and a log of several megabytes pass through the real ptxas") {
  const Ptxas* ptxas = real_ptxas();
  if (!ptxas) return;
  std::string comments;
  // Tests long lines and names, because the time that ptxas takes grows with lines and with errors.
  for (int i = 0; i < 3000; ++i) comments += "// " + std::string(1000, 'a') + std::to_string(i) + "\n";
  CHECK(ptxas->assemble(kernel(comments))
            .cubin.starts_with("\x7f"
                               "ELF"));
  std::string wrong;
  for (int i = 0; i < 2000; ++i)
    wrong += "mov.u32 %unknown" + std::to_string(i) + std::string(1000, 'x') + ", %r1;\n";
  const std::string text = error_of([&] { ptxas->assemble(kernel(wrong)); });
  CHECK(contains(text, "%unknown0x"));
}

}  // namespace ptxbuilder::test::ptxas_test
