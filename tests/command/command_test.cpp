// Tests the command lines from a user's point of view. Checks exit codes and the errors for wrong words. Each
// wrong word is tested together with correct words.
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "command_kit.h"
#include "options.h"
#include "ptxbuilder/file_text.h"
#include "ptxbuilder/isa/rows.h"

namespace ptxbuilder::test::command_test {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("ptxbuilder_command_test_{}", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string str(const char* name = "") const { return (path / name).string(); }
};

}  // namespace

TEST_CASE("the ptxas of CUDA 12.4 assembles kernels that need no newer PTX, and reports those that do") {
  const Folder folder;
  const std::string oldest =
      fmt::format("{}/../build/ptxas/oldest/nvidia/cuda_nvcc/bin/ptxas", PTXBUILDER_TEST_DIR);
  if (!fs::exists(oldest)) return skip("no ptxas of CUDA 12.4: scripts/setup takes it from PyPI");
  // This ptxas takes 12 s for a gemm of 256 columns.
  for (const char* kernel : {"saxpy_tma", "gemm --bn 64", "attention"}) {
    const Ran emitted =
        run(fmt::format("ptxb emit {} --no-cache --ptxas {} -o {}", kernel, oldest, folder.str("oldest")));
    CHECK_MESSAGE(emitted.code == 0, emitted.output);
  }
  const Ran newer =
      run(fmt::format("ptxb emit blackwell_tile --no-cache --ptxas {} -o {}", oldest, folder.str("oldest")));
  CHECK(newer.code == 1);
  CHECK(contains(newer, "ptxas 12.4.131 cannot assemble kernel 'blackwell_tile':"));
  CHECK(contains(newer, "This ptxas does not know the target: use a newer ptxas"));
}

TEST_CASE("help is everywhere") {
  for (const char* words :
       {"ptxb --help", "ptxb run --help", "ptxb run gemm_warp_specialized --help", "ptxb emit hello --help",
        "ptxb cache --help", "ptxb new --help", "ptxb compile --help", "ptxb export --help",
        "ptxb export saxpy --help", "ptxb isa --help", "ptxb sim --help", "ptxb diff --help",
        "ptxb explain --help", "ptxb annotate saxpy --help", "ptxb tma --help",
        "gemm_warp_specialized --help", "saxpy --help"}) {
    CAPTURE(words);
    Ran ran = run(words);
    CHECK(ran.code == 0);
    CHECK(contains(ran, "-h,--help"));
  }
}

TEST_CASE("ptxb sim launches a kernel as its sidecar describes") {
  const Folder folder;
  REQUIRE(run("ptxb emit saxpy --threads 64 --assembler none -o " + folder.str()).code == 0);
  std::ifstream file(folder.str("saxpy.json"));
  const auto sidecar = nlohmann::json::parse(file);
  CHECK(sidecar["grid"] == nlohmann::json({"ceil_div(count, 64)", "1", "1"}));
  CHECK(sidecar["configuration"] == nlohmann::json({{"threads", "64"}}));  // m and n come from the run
  CHECK(sidecar["parameters"][3]["meaning"] == "elements of x and of y");
  CHECK_FALSE(sidecar.contains("overlaps"));
  std::ofstream(folder.str("launch.json")) << R"({
    "buffers": [{"name": "x", "dtype": "f32", "shape": [100], "init": "iota"},
                {"name": "y", "dtype": "f32", "shape": [100]}],
    "parameters": [{"pointer": "x"}, {"pointer": "y"}, {"scalar": "f32", "value": 1},
                   {"scalar": "u32", "value": 100}],
    "outputs": [{"buffer": "y", "equals": {"buffer": "x"}}]})";
  const Ran ran = run("ptxb sim " + folder.str("saxpy.ptx") + " --launch " + folder.str("launch.json"));
  CHECK(ran.code == 0);
  CHECK(contains(ran, "100"));

  REQUIRE(run("ptxb emit gemm --assembler none --bm 64 --consumers 1 --sms 7 -o " + folder.str()).code == 0);
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    if (entry.path().extension() != ".json" || !entry.path().stem().string().starts_with("gemm_")) continue;
    std::ifstream gemm(entry.path());
    const auto of_gemm = nlohmann::json::parse(gemm);
    CHECK("gemm_" + std::string(of_gemm["configuration"]["tile"]) == entry.path().stem());
    CHECK(of_gemm["configuration"]["b_major"] == "k");
    CHECK(of_gemm["grid"][0] == "min(ceil_div(M, 64) * ceil_div(N, 256), max(1, 132 * 7 / 132))");
    CHECK(of_gemm["overlaps"] == true);
    return;
  }
  FAIL("gemm has no sidecar");
}

TEST_CASE("wrong words are refused with the legal ones") {
  Ran kernel = run("ptxb run gem");
  CHECK(kernel.code == 2);
  CHECK(contains(kernel, "gemm_warp_specialized"));

  Ran field = run("gemm_warp_specialized --rows 8");
  CHECK(field.code == 2);
  CHECK(contains(field, "--rows"));
  CHECK(contains(field, "--m --n --k --bm --bn --bk --stages"));

  Ran value = run("gemm_warp_specialized --assembler none --m 12 --emit /tmp");
  CHECK(value.code == 2);
  CHECK(contains(value, "field m = 12: it must be at least 8 and a multiple of 8"));
  CHECK(run("gemm_warp_specialized --assembler none --m 16 --emit /proc/none").code == 1);
  Ran choice = run("ptxb emit gemm --a f32 -o /tmp");
  CHECK(choice.code == 2);
  CHECK(contains(choice, "--a: 'f32' must be one of bf16, e4m3, e5m2, f16, s8, tf32, u8\n"));

  CHECK(run("gemm_warp_specialized --m many").code == 2);
  Ran command = run("ptxb frobnicate");
  CHECK(command.code == 2);
  CHECK(contains(command, "error: there is no command 'frobnicate'; the nearest are "));
  command = run("ptxb layuot '4:1'");
  CHECK(command.code == 2);
  CHECK(contains(command, "error: there is no command 'layuot'; the nearest are layout, "));
  for (const char* verb : {"run", "emit", "bench"}) {
    Ran name = run(fmt::format("ptxb {} sapxy -o /tmp", verb));
    CHECK(name.code == 2);
    CHECK(contains(name, "error: there is no kernel 'sapxy'; the nearest are saxpy, "));
    name = run(fmt::format("ptxb {}", verb));
    CHECK(name.code == 2);
    CHECK(contains(name, "error: A subcommand is required"));
  }
  CHECK(run("ptxb").code == 2);
  CHECK(run("ptxb emit saxpy").code == 2);  // the folder is missing
}

TEST_CASE("impossible configurations are refused before ptxas sees them") {
  Ran large = run("gemm_warp_specialized --assembler none --stages 5 --emit /tmp");
  CHECK(large.code == 1);
  CHECK(contains(large, "bytes exceed the 232448 that a CTA may have"));
  Ran registers = run("gemm_warp_specialized --assembler none --bm 192 --bn 128 --stages 2 --emit /tmp");
  CHECK(registers.code == 1);
  CHECK(contains(registers, "registers, but an SM has 65536"));
}

TEST_CASE("emit writes the files, and says so in JSON") {
  Folder folder;
  Ran ran = run(fmt::format("ptxb emit gemm_tile --assembler none --json -o {}", folder.str("new/folder")));
  CHECK(ran.code == 0);
  auto json = nlohmann::json::parse(ran.output);
  CHECK(json["kernel"] == "gemm_tile");
  CHECK_FALSE(json.contains("verify"));  // it runs nothing
  CHECK_FALSE(json.contains("device"));
  REQUIRE(json["files"].size() == 3);  // no cubin without an assembler
  for (const auto& file : json["files"]) CHECK(fs::file_size(file.get<std::string>()) > 100);

  Ran unwritable = run("ptxb emit gemm_tile --assembler none -o /proc/none");
  CHECK(unwritable.code == 1);
  CHECK(contains(unwritable, "/proc/none: the folder cannot be created"));
}

TEST_CASE("a named ptxas must exist, and PTX alone needs none") {
  Folder folder;
  for (const char* assembler : {"ptxas", "auto"}) {
    Ran wanted = run(
        fmt::format("ptxb emit saxpy --assembler {} --ptxas /nowhere/ptxas -o {}", assembler, folder.str()));
    CHECK(wanted.code == 1);
    CHECK(contains(wanted, "/nowhere/ptxas: no such file"));
    CHECK_FALSE(fs::exists(folder.path / "saxpy.cubin"));
  }
  Ran none = run(fmt::format("ptxb emit saxpy --assembler none -o {}", folder.str()));
  CHECK(none.code == 0);
  CHECK(fs::exists(folder.path / "saxpy.ptx"));
  CHECK_FALSE(fs::exists(folder.path / "saxpy.cubin"));
}

TEST_CASE("compile: a module of LLVM's IR from a file or standard input") {
  Folder folder;
  const std::string good = folder.str("good.ll"), bad = folder.str("bad.ll"), out = folder.str("out");
  std::ofstream(good) << "define ptx_kernel void @k(ptr %p) {\n  store i32 7, ptr %p\n  ret void\n}\n";
  std::ofstream(bad) << "define ptx_kernel void @k(ptr %p) {\n  store i32 7, i32 %p\n  ret void\n}\n";
  Ran written = run(fmt::format("ptxb compile {} --ptx --json -o {}", good, out));
  CHECK(written.code == 0);
  CHECK(nlohmann::json::parse(written.output)["files"][0] == out + "/good.ptx");
  CHECK(fs::exists(out + "/good.ptx"));
  CHECK(run(fmt::format("ptxb compile - --ptx -o {}", out), fmt::format("cat {} |", good)).code == 0);
  CHECK(fs::exists(out + "/stdin.ptx"));
  Ran refused = run(fmt::format("ptxb compile {} --ptx -o {}", bad, out));
  CHECK(refused.code == 1);
  CHECK(contains(refused, "bad.ll:2:20: '%p' defined with type 'ptr' but expected 'i32'"));
  CHECK(run("ptxb compile").code == 2);
  CHECK(contains(run("ptxb compile nowhere.ll"), "nowhere.ll: cannot be read"));
}

TEST_CASE("compile: sim runs its output, and missing sidecars are reported") {
  Folder folder;
  auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path / name) << text; };
  const std::string attributes = "attributes #0 = { \"nvvm.maxntid\"=\"64\" }\n";
  const std::string kernel = R"(
@tile = external addrspace(3) global [0 x i8], align 16
define ptx_kernel void @saxpy(ptr %d, ptr addrspace(1) %x, float %a, i32 %n) #0 {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %inside = icmp slt i32 %tid, %n
  br i1 %inside, label %then, label %end
then:
  %from = getelementptr float, ptr addrspace(1) %x, i32 %tid
  %to = getelementptr float, ptr %d, i32 %tid
  %v = load float, ptr addrspace(1) %from
  %product = fmul float %a, %v
  store float %product, ptr %to
  br label %end
end:
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)";
  const std::string other = "define ptx_kernel void @other(ptr byval([16 x i37]) %s) #0 {\n  ret void\n}\n";
  write("saxpy.ll", kernel + attributes);
  write("two.ll", kernel + other + attributes);
  write("threads.ll", kernel + "attributes #0 = { nounwind }\n");
  const std::string out = folder.str("out");
  Ran one = run(fmt::format("ptxb compile {} --ptx -o {}", folder.str("saxpy.ll"), out));
  CHECK(one.code == 0);
  CHECK(one.output == fmt::format("wrote {0}/saxpy.ptx\nwrote {0}/saxpy.json\n", out));
  Ran two = run(fmt::format("ptxb compile {} --ptx -o {}", folder.str("two.ll"), out));
  CHECK(two.code == 0);
  CHECK(fs::exists(out + "/two.saxpy.json"));
  CHECK_FALSE(fs::exists(out + "/two.other.json"));
  CHECK(contains(two,
                 "two.ll: no sidecar of the kernel 'other': parameter 0 's' is [16 x i37]; a sidecar has"));
  Ran none = run(fmt::format("ptxb compile {} --ptx --json -o {}", folder.str("threads.ll"), out));
  CHECK(none.code == 0);
  auto json = nlohmann::json::parse(none.output);
  CHECK(json["files"].size() == 1);
  CHECK(json["no_sidecar"][0]["kernel"] == "saxpy");
  CHECK(json["no_sidecar"][0]["why"].get<std::string>().starts_with("its number of threads is not known"));

  // The data is random. The first n results are 2 x, and the others keep their poison, which is NaN.
  std::mt19937 engine(std::random_device{}());
  std::normal_distribution<float> normal;
  std::vector<float> x(64), right(64);
  std::memset(right.data(), 0xff, 4 * right.size());
  for (size_t i = 0; i < 64; ++i) {
    x[i] = normal(engine);
    if (i < 50) right[i] = 2 * x[i];
  }
  for (auto [name, values] : {std::pair("x.bin", &x), std::pair("right.bin", &right)})
    write(name, std::string(reinterpret_cast<const char*>(values->data()), 4 * values->size()));
  const std::string launch = R"({"entry": "saxpy", "grid": 1, "buffers": [
      {"name": "d", "dtype": "f32", "shape": [64], "init": "poison"},
      {"name": "x", "dtype": "f32", "shape": [64], "init": {"file": "x.bin"}}],
    "parameters": [{"pointer": "d"}, {"pointer": "x"}, {"scalar": "f32", "value": 2}, {"scalar": "s32", "value": 50}],
    "outputs": [{"buffer": "d", "equals": {"file": "right.bin"}}])";
  write("launch.json", launch + "}");
  auto sim = [&](const char* name) {
    return run(fmt::format("ptxb sim {}/{} --launch {} --seeds 3", out, name, folder.str("launch.json")));
  };
  CHECK(contains(sim("saxpy.ptx"), "d: all 64 elements are right"));  // the sidecar specifies 64 threads
  CHECK(contains(sim("two.ptx"), "d: all 64 elements are right"));
  CHECK(contains(sim("threads.ptx"), "block: it is missing, and the PTX has neither .reqntid nor a sidecar"));
  write("launch.json", launch + R"(, "block": 32})");  // the launch file has precedence over the sidecar
  CHECK(contains(sim("saxpy.ptx"), "d: WRONG, 18 of 64 elements"));
  write("launch.json", launch + "}");
  fs::remove(out + "/saxpy.json");
  CHECK(contains(sim("saxpy.ptx"), "block: it is missing"));

  write("out/saxpy.json",
        launch + "}");  // a launch file next to the PTX is not read as a sidecar, and is not overwritten
  CHECK(contains(sim("saxpy.ptx"), "block: it is missing"));
  Ran refused = run(fmt::format("ptxb compile {} --ptx -o {}", folder.str("saxpy.ll"), out));
  CHECK(refused.code == 1);
  CHECK(contains(refused,
                 "saxpy.json: this file is not a sidecar, but a sidecar would be written there; move it"));
}

TEST_CASE("an unknown device is refused") {
  Ran ran = run("saxpy --device fpga");
  CHECK(ran.code == 1);
  CHECK(contains(ran, "the device is 'fpga', but must be"));
  CHECK(ran.output.find("execute.cpp") ==
        std::string::npos);  // the words come from the user, so the error names no source line of the library
}

TEST_CASE("tensors beyond the machine's memory are refused before they are filled") {
  Ran ran = run("ptxb run gemm --device emulator --assembler none --m 2000000000 --k 2000000000");
  CHECK(ran.code == 1);
  CHECK(contains(ran,
                 "a tensor of 2000000000 x 2000000000 bf16 takes 8000000000.0 GB, so the tensors of the run "
                 "take 16000000000.0 GB, once on the host and once on the emulator, but the machine has "));
  CHECK(contains(ran, "(gemm_family.cpp:"));
  CHECK(run("saxpy --device emulator --assembler none --m 100").code == 0);
}

TEST_CASE("on the emulator, verification comes before times are refused") {
  for (const char* words : {"saxpy --verify --bench", "ptxb bench saxpy --verify"}) {
    CAPTURE(words);
    Ran ran = run(fmt::format("{} --device emulator --assembler none", words));
    CHECK(ran.code == 1);
    CHECK(contains(ran, "verified: 8192 of 8192 elements"));
    CHECK(contains(ran, "error: times need a GPU"));
  }
  Ran times = run("ptxb bench saxpy --device emulator --assembler none");
  CHECK(times.code == 1);
  CHECK(times.output.find("verified") == std::string::npos);
}

TEST_CASE("an executable of one kernel says what it accepts") {
  Ran list = run("saxpy --list");
  CHECK(list.code == 0);
  CHECK(contains(list, "--threads            threads of a CTA (default 32)"));
  CHECK(contains(run("gemm_warp_specialized --list"), "(default bf16, one of bf16 f16)"));
  CHECK(run("saxpy list").output == list.output);
  CHECK(contains(
      run("saxpy --help"),
      "saxpy run, bench, profile, emit, report, prove, annotate, explain, lint, tune, export, list"));
  const Ran other = run("saxpy sim saxpy.ptx");
  CHECK(other.code == 2);
  CHECK(contains(other, "there is no command 'sim'; the nearest are "));
  CHECK(contains(run("saxpy --row 1"), "known here: "));
}

TEST_CASE("an executable of one kernel has ptxb's commands, and its name may be left out") {
  for (const char* kernel : {"ptxb {} saxpy", "saxpy {} saxpy", "saxpy {}"}) {
    CAPTURE(kernel);
    const auto command = [&](const char* name, const std::string& words) {
      return run(fmt::format(fmt::runtime(kernel), name) + " " + words);
    };
    const std::string emulated = "--threads 64 --device emulator --assembler none";
    CHECK(contains(command("run", emulated), "verified: 8192 of 8192"));
    CHECK(contains(command("bench", emulated), "times need a GPU"));
    CHECK(contains(command("prove", ""), "nothing to prove"));
    CHECK(contains(command("annotate", "--threads 64 --assembler none"), "saxpy.cpp"));
    CHECK(contains(command("lint", "threads=64"), "saxpy: 1 found"));
    const Ran explained = command("explain", "threads=64 --json");
    CHECK(nlohmann::json::parse(explained.output)["threads"] == 64);
    for (const char* reader : {"lint", "explain"}) {
      const Ran wrong = command(reader, "rows=64");
      CHECK(wrong.code == 2);
      CHECK(contains(wrong, "no field is named 'rows'; the fields are m, n, threads"));
    }
  }
  const Folder folder;
  REQUIRE(run("saxpy emit --threads 96 --assembler none -o " + folder.str()).code == 0);
  CHECK(contains(run("saxpy lint " + folder.str("saxpy.ptx")), "saxpy: 1 found"));
  CHECK(contains(run("saxpy explain " + folder.str("saxpy.ptx")), "96"));
  // Compares the tensor maps of the sidecar or of a launch file with those of the kernel.
  REQUIRE(run("ptxb emit gemm_tile --assembler none -o " + folder.str()).code == 0);
  const std::string tile = folder.str("gemm_tile.ptx"), sidecar = folder.str("gemm_tile.json");
  CHECK(run("ptxb lint " + tile).code == 0);
  std::string says = file_text(sidecar);
  const size_t swizzle = says.find("\"swizzle\": \"128\"");
  REQUIRE(swizzle != std::string::npos);
  std::ofstream(sidecar) << says.replace(swizzle, 16, "\"swizzle\": \"64\"");
  CHECK(contains(run("ptxb lint " + tile), "the tensor map with which the tile is copied has swizzle 64"));
  const std::string launch = folder.str("launch.json");
  std::ofstream(launch)
      << R"({"buffers": [{"name": "x", "dtype": "bf16", "shape": [256, 256]}], "parameters": [
    {"tensor_map": "x", "box": [64, 64], "swizzle": "128"}, {"tensor_map": "x", "box": [32, 64], "swizzle": "64"}]})";
  CHECK(contains(run("ptxb lint " + tile + " --launch " + launch),
                 "descriptor of B in this wgmma has swizzle 128, but the"));
  // If requested, lint reports what it cannot decide, with a separate exit code.
  const std::string unbounded = folder.str("unbounded.ptx");
  std::ofstream(unbounded)
      << ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n"
         ".reg .b32 %r;\nld.param.u32 %r, [n];\nbar.sync %r, 64;\nret;\n}\n";
  CHECK(run("ptxb lint " + unbounded).code == 0);
  const Ran undecided = run("ptxb lint --undecided --json " + unbounded);
  CHECK(undecided.code == 3);
  auto findings = nlohmann::json::parse(undecided.output)[0]["findings"];
  std::erase_if(findings.get_ref<nlohmann::json::array_t&>(),
                [](const nlohmann::json& finding) { return finding["undecided"] == false; });
  REQUIRE(findings.size() == 1);
  CHECK(findings[0]["rule"] == "named-barrier");
  CHECK(findings[0]["line"] == 8);
  CHECK(findings[0]["what"] == "how many threads reach this barrier is not known");
  CHECK(run("saxpy lint " + folder.str("none.ptx")).code == 2);
  const Ran two = run("ptxb lint sapxy threads=64");
  CHECK(two.code == 2);
  CHECK(contains(two, "'sapxy' is not a kernel of this program, so 'threads=64' after it has no meaning"));
  for (const char* reader : {"lint", "explain"})
    CHECK(contains(run(fmt::format("ptxb {}", reader)), ": pass a PTX file or a kernel"));
}

TEST_CASE("listings are complete, and their JSON is JSON") {
  auto isa = nlohmann::json::parse(run("ptxb isa --json").output);
  CHECK(isa.size() == ptxbuilder::isa::rows().size());
  auto kernels = nlohmann::json::parse(run("ptxb list --json").output);
  CHECK(kernels.size() >= 5);
  for (const auto& kernel : kernels) CHECK(contains(run("ptxb list"), kernel["name"].get<std::string>()));
  auto version = nlohmann::json::parse(run("ptxb version --json").output);
  for (const char* part : {"ptxbuilder", "llvm", "ptxas", "device"}) CHECK(version.contains(part));
}

TEST_CASE("the number of a field has only decimal digits") {
  for (const char* word : {"0x10", "+5", "' 5'", "010"})
    CHECK(contains(run(fmt::format("ptxb emit saxpy --n={}", word)), "is not an integer in decimal digits"));
}

TEST_CASE("sim: exit codes say whether the kernel was right, wrong, at fault or too slow") {
  Folder folder;
  auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path / name) << text; };
  auto kernel = [&](const char* body) {
    write("k.ptx",
          fmt::format(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n"
                      ".reg .b64 %rd<2>; ld.param.u64 %rd0, [p];\n{}\nret;\n}}\n",
                      body));
  };
  auto sim = [&](const char* more) {
    return run(
        fmt::format("ptxb sim {} --launch {} --seeds 2 {}", folder.str("k.ptx"), folder.str("l.json"), more));
  };
  const std::string launch =
      R"({"grid": 1, "block": 32, "buffers": [{"name": "d", "dtype": "u32", "shape": [1]}],
    "parameters": [{"pointer": "d"}], "outputs": [{"buffer": "d", "print": 1, "equals": 5}]})";
  write("l.json", launch);
  kernel("st.global.u32 [%rd0], 5;");
  Ran right = sim("--seed 3");
  CHECK(right.code == 0);
  CHECK(contains(right, "k: 2 schedules from seed 3"));
  CHECK(contains(right, "d = 5"));
  auto json = nlohmann::json::parse(sim("--seed 3 --json").output);
  CHECK(json["comparisons"][0]["wrong"] == 0);

  kernel("st.global.u32 [%rd0], 6;");
  Ran wrong = sim("");
  CHECK(wrong.code == 3);
  CHECK(contains(wrong, "d: WRONG, 1 of 1 elements; the first: d[0] is 6, expected 5"));

  kernel("st.global.u32 [%rd0+4], 5;");
  Ran fault = sim("");
  CHECK(fault.code == 1);
  CHECK(contains(fault, "access out of bounds"));
  CHECK(contains(fault, "at PTX line 6: st.global.u32 [%rd0+4], 5"));
  json = nlohmann::json::parse(sim("--json").output);
  REQUIRE(json["faults"].size() == 1);
  CHECK(json["faults"][0]["kind"] == "access out of bounds");
  CHECK(json["faults"][0]["ptx_line"] == 6);

  kernel("L: bra L;");
  CHECK(sim("--time-limit 0.2").code == 4);

  write("l.json", launch.substr(0, 100));
  Ran broken = sim("");
  CHECK(broken.code == 1);
  CHECK(contains(broken, "l.json: line 2, column 18: no JSON"));
  CHECK(run("ptxb sim nowhere.ptx").code == 2);  // there is no launch file

  write("l.json", launch);
  write("k.ptx",
        "\x7f"
        "ELF\x02");
  CHECK(contains(sim(""),
                 "k.ptx: it is a cubin, which only GPUs run: pass the PTX that it was assembled from"));
}

TEST_CASE("tma: exit codes say whether a map is legal") {
  Ran legal = run("ptxb tma --dtype bf16 --shape 4096,1024 --box 64,128 --swizzle 128");
  CHECK(legal.code == 0);
  CHECK(contains(legal, "box: 16384 B in shared memory"));
  Ran broken = run("ptxb tma --dtype bf16 --shape 4096,1024 --box 96,128 --swizzle 128");
  CHECK(broken.code == 3);
  CHECK(contains(broken, "box[0] = 96 x bf16 = 192 B exceeds the span of swizzle 128"));
  CHECK(contains(broken, "nearest: --dtype bf16 --shape 4096,1024 --box 64,128"));
  auto json = nlohmann::json::parse(
      run("ptxb tma --json --dtype f32 --shape 100,8,2 --strides 404,4096 --box 4,8,1").output);
  CHECK(json["legal"] == false);
  CHECK(json["breaches"][0]["member"] == "strides");
  CHECK(json["nearest"]["strides"][0] == 416);
  CHECK(run("ptxb tma --dtype half --shape 64 --box 64").code == 1);
  CHECK(run("ptxb tma --shape 64 --box 64").code == 2);
  for (const char* shape : {"-5,8", "99999999999999999999,8", "64.5,8", "0x40,8"})
    CHECK(run(std::string("ptxb tma --dtype bf16 --box 8,8 --shape ") + shape).code == 2);
  CHECK(run("ptxb tma --dtype bf16 --shape 64,8 --box 8,99999999999").code == 2);
}

TEST_CASE("the cache is shown, checked and cleared") {
  Folder folder;
  auto cache = [&](const char* words) {
    return nlohmann::json::parse(
        run(fmt::format("ptxb cache --json --cache-dir {} {}", folder.str("cache"), words)).output);
  };
  CHECK(cache("")["entries"] == 0);
  Ran emitted = run(fmt::format("ptxb emit saxpy --cache-dir {} -o {}", folder.str("cache"), folder.str()));
  CHECK(emitted.code == 0);
  if (!fs::exists(folder.path / "saxpy.cubin")) {
    ptxbuilder::test::skip("a filled cache, since there is no ptxas: " + emitted.output);
    return;
  }
  CHECK(cache("")["entries"] >= 1);
  Ran again = run(fmt::format("ptxb emit saxpy --cache-dir {} -o {}", folder.str("cache"), folder.str()));
  CHECK(contains(again, "cached"));
  CHECK(cache("--verify")["removed"].empty());
  for (const auto& file : fs::directory_iterator(folder.path / "cache"))
    if (fs::file_size(file) > 500) fs::resize_file(file, fs::file_size(file) / 2);
  CHECK_FALSE(cache("--verify")["removed"].empty());
  cache("--clear");
  CHECK(cache("")["entries"] == 0);
}

TEST_CASE("a new kernel is a folder, and nothing is overwritten") {
  const Folder folder;
  const auto make = [](const std::string& words, const std::string& where) {
    return run("ptxb new " + words, "cd " + where + " &&");
  };
  const Ran made = make("mine --json", folder.str());
  CHECK(made.code == 0);
  const auto json = nlohmann::json::parse(made.output);
  CHECK(json["files"] == nlohmann::json{"mine/mine.cpp", "mine/CMakeLists.txt", "mine/README.md"});
  // This ptxb is in its build folder, where find_package cannot find it.
  CHECK(json["commands"][0].get<std::string>().starts_with("cmake --install "));
  CHECK(json["commands"][2] == "cmake -B build -DCMAKE_PREFIX_PATH=$HOME/.local");
  for (const auto& file : json["files"]) CHECK(fs::file_size(folder.path / std::string(file)) > 300);

  std::ofstream(folder.path / "mine/mine.cpp") << "edited";
  const Ran again = make("mine", folder.str());
  CHECK(again.code == 1);
  CHECK(contains(again, "mine: it already exists, and nothing is overwritten: choose another name"));
  CHECK(fs::file_size(folder.path / "mine/mine.cpp") == 6);
  const Ran nowhere = make("mine", "/proc");
  CHECK(nowhere.code == 1);
  CHECK(contains(nowhere, "mine: the folder cannot be created: "));
  for (const char* name : {"1mine", "my-kernel", "a/b", "''"}) {
    CAPTURE(name);
    const Ran wrong = make(name, folder.str());
    CHECK(wrong.code == 2);
    CHECK(contains(wrong, "cannot be the name of a kernel: a name has letters, digits and _"));
  }
  const Ran reserved = make("test", folder.str());
  CHECK(reserved.code == 2);
  CHECK(contains(reserved, "'test' is one of CMake's own targets and cannot be the name of a kernel"));
}

TEST_CASE("layouts are evaluated, drawn, and read in batches") {
  Ran one = run("ptxb layout 'composition((4,(2,4)):(1,(16,4)), 8:2)'");
  CHECK(one.code == 0);
  CHECK(one.output == "(2,2,2):(2,16,4)\n");
  CHECK(contains(run("ptxb layout --table '(2,3):(3,1)'"), "1 | 3  4  5\n"));
  Ran wrong = run("ptxb layout '(4,8'");
  CHECK(wrong.code == 1);
  CHECK(contains(wrong, "column 5: expected ',' or ')', found the end"));
  for (const char* what : {"--table", "--json", "--svg /dev/null"})
    CHECK(contains(run(fmt::format("ptxb layout {} 4:9223372036854775807", what)),
                   "the table of 4:9223372036854775807: a layout's integers have 64 bits"));
  CHECK(run("ptxb layout").code == 2);
  CHECK(run("ptxb layout --batch 4:1 < /dev/null").code == 2);

  Ran batch = run("ptxb layout --batch",
                  "printf '(4,(1,2)):(2,(0,1))\\n4:\\nSw<1,0,1> o 4:1\\nidx2crd(5,(4,8))\\n' |");
  CHECK(batch.code == 0);
  CHECK(batch.output ==
        "{\"shape\":[4,[1,2]],\"stride\":[2,[0,1]],\"table\":[0,2,4,6,1,3,5,7]}\n"
        "{\"error\":\"column 3: expected an integer, '_', '(', '<' or a name, found the end\"}\n"
        "{\"shape\":4,\"stride\":1,\"swizzle\":[1,0,1],\"table\":[0,1,3,2]}\n"
        "{\"value\":[1,1]}\n");

  Folder folder;
  Ran drawn =
      run(fmt::format("ptxb layout '((4,8),(2,2)):((32,1),(16,8))' --tile '(16,8)' --svg {} --latex {}",
                      folder.str("a.svg"), folder.str("a.tex")));
  CHECK(drawn.code == 0);
  for (const char* file : {"a.svg", "a.tex"}) {
    std::ifstream in(folder.str(file));
    std::string text((std::istreambuf_iterator<char>(in)), {});
    CHECK(text.find("T31 V3") != std::string::npos);
  }
  CHECK(run("ptxb layout 4:1 --svg /nonexistent/a.svg").code == 1);
}

}  // namespace ptxbuilder::test::command_test
