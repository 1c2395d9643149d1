// Tests kernels as C: a C and a C++ compiler compile the output of `ptxb export`, and the programs launch
// kernels on the mock driver and on the emulator.
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "command_kit.h"
#include "folder_kit.h"
#include "options.h"
#include "ptxbuilder/error.h"
#include "ptxbuilder/launch_rule.h"

namespace ptxbuilder::test::export_test {
namespace {

const std::string kMains = PTXBUILDER_TEST_DIR "/export/", kSource = PTXBUILDER_TEST_DIR "/..";
const std::string kC = std::string(PTXBUILDER_CC) + " -std=c11 -Wall -Wextra -Wpedantic -Werror";
const std::string kCxx = std::string(PTXBUILDER_CXX) + " -Wall -Wextra -Wpedantic -Werror";

Ran shell(const std::string& words) {
  FILE* pipe = popen((words + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

Ran good(Ran ran) {
  CAPTURE(ran.output);
  REQUIRE(ran.code == 0);
  return ran;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A folder with a libcuda.so.1, in which kernels are exported, compiled and launched.
class Workshop {
 public:
  explicit Workshop(const char* driver) {
    std::filesystem::create_symlink(driver, folder_.path("libcuda.so.1"));
  }

  std::string path(const std::string& name = "") const { return folder_.path(name); }
  Ran exported(const std::string& words) const {
    return run(fmt::format("ptxb export {} -o {}", words, path()));
  }
  // Compiles NAME.c to NAME.o as C, and to NAME_cxx.o as C++.
  void compile(const std::string& name) const {
    const std::string file = path(name);
    good(shell(fmt::format("{} -c {}.c -o {}.o", kC, file, file)));
    good(shell(fmt::format("{} -x c++ -c {}.c -o {}_cxx.o", kCxx, file, file)));
  }
  void compile_main(const std::string& compiler, const std::string& main) const {
    good(
        shell(fmt::format("cd {} && {} -I. -I{} -c {}{} -o main.o", path(), compiler, kMains, kMains, main)));
  }
  void link(const std::string& compiler, const std::string& objects) const {
    good(shell(fmt::format("cd {} && {} main.o {} -o program -ldl -pthread", path(), compiler, objects)));
  }
  void link(const std::string& compiler, const std::string& main, const std::string& objects) const {
    compile_main(compiler, main);
    link(compiler, objects);
  }
  Ran launched(const std::string& words = "", const std::string& folder_of_driver = ".") const {
    return shell(fmt::format("cd {} && LD_LIBRARY_PATH={} ./program {}", path(), folder_of_driver, words));
  }

 private:
  Folder folder_;
};

std::string seed() { return std::to_string(std::random_device()() % 1000000); }

}  // namespace

TEST_CASE("launches make the necessary driver calls in the right context, and errors have messages") {
  const Workshop w(PTXBUILDER_MOCK_LIBCUDA);
  for (const char* kernel : {"saxpy", "add_multicast", "gemm --split_last 4 --name divided"}) {
    good(w.exported(std::string(kernel) + " --ptx"));
    w.compile(std::string(kernel).starts_with("gemm") ? "divided" : kernel);
  }
  w.compile_main(fmt::format("{} -std=c++20 -I{} -I{}/tests/kit", kCxx, kSource, kSource), "calls_main.cpp");
  for (const char* objects :
       {"saxpy.o add_multicast.o divided.o", "saxpy_cxx.o add_multicast_cxx.o divided_cxx.o"}) {
    w.link(kCxx, objects);
    CHECK(contains(w.launched(), "all calls are right"));
  }
}

TEST_CASE("an exported saxpy computes, and its header says how it is launched") {
  const Workshop w(PTXBUILDER_EMULATOR_LIBCUDA);
  good(w.exported("saxpy --threads 64 --ptx"));
  w.compile("saxpy");
  w.link(kC, "saxpy_main.c", "saxpy.o");
  const std::string words = seed();
  CAPTURE(words);
  CHECK(contains(w.launched(words), "saxpy: 1000 elements are right"));
  const std::string header = text_of(w.path("saxpy.h"));
  CHECK(header.find("shape") == std::string::npos);  // there is no tensor
  for (const char* said :
       {"threads=64", "grid: ceil_div(count, 64) x 1 x 1", "count: u32; elements of x and of y",
        "int saxpy_launch(float* x, float* y, float alpha, uint32_t count, const uint32_t grid[3], void* "
        "stream);"})
    CHECK_MESSAGE(header.find(said) != std::string::npos, said);

  std::filesystem::create_directory(w.path("none"));
  std::ofstream(w.path("none/libcuda.so.1")) << "no library";
  const Ran ran = w.launched(words, "none");
  CHECK(ran.code == 1);
  CHECK(contains(ran, "saxpy: there is no NVIDIA driver: none/libcuda.so.1"));
}

TEST_CASE("a program of the driver's own calls runs on the emulator, which says what went wrong") {
  const Workshop w(PTXBUILDER_EMULATOR_LIBCUDA);
  good(w.exported("saxpy --ptx"));
  w.compile("saxpy");
  w.link(kC, "driver_main.c", "saxpy.o -L. -l:libcuda.so.1");
  CHECK(contains(w.launched(), "all calls are right"));
}

TEST_CASE("one program takes the cubin on a GPU, and the PTX next to it on the emulator") {
  const Ran version = good(run("ptxb version --json --device emulator"));
  const auto ptxas = nlohmann::json::parse(version.output)["ptxas"].get<std::string>();
  if (ptxas.starts_with("none")) return skip(ptxas);
  const Workshop w(PTXBUILDER_EMULATOR_LIBCUDA);
  good(w.exported("saxpy --threads 64 --with-ptx"));
  const std::string source = text_of(w.path("saxpy.c"));
  const size_t elf = source.find("= {\n    127,69,76,70,"),
               text = source.find("= {\n    47,47,");  // the text begins with "//"
  CHECK(elf < text);
  CHECK(text < source.size());
  w.compile("saxpy");
  w.link(kC, "saxpy_main.c", "saxpy.o");
  CHECK(contains(w.launched(seed()), "saxpy: 1000 elements are right"));

  good(w.exported("saxpy"));
  w.compile("saxpy");
  w.link(kC, "saxpy_main.c", "saxpy.o");
  CHECK(contains(w.launched(seed()),
                 "saxpy: cuLibraryLoadData of saxpy failed: CUDA_ERROR_NO_BINARY_FOR_GPU (209): the emulator "
                 "runs PTX text, but this is a cubin: export the kernel with --with-ptx or --ptx"));
  CHECK(w.exported("saxpy --ptx --with-ptx").code == 2);
}

TEST_CASE("a launch takes the first configuration whose condition holds") {
  const Workshop w(PTXBUILDER_EMULATOR_LIBCUDA);
  good(w.exported(
      "gemm --consumers 1 --bm 64 --cluster_m 2 --ptx --name product --config \"bn=64 if M <= 64\" "
      "--config \"bn=32 if N % 128 == 0\" --config \"bn=128,cluster_m=1\""));
  w.compile("product");
  w.link(kC + " -DWITH_SIZES", "product_main.c", "product.o");
  const std::string words = seed();
  CAPTURE(words);
  const Ran ran = w.launched(words + " 64x128x72 72x128x136 136x72x64");
  CHECK(contains(ran, "64x128x72 by gemm_64x64x64_13_2x1_w1: all are right"));
  CHECK(contains(ran, "72x128x136 by gemm_64x32x64_16_2x1_w1: all are right"));
  CHECK(contains(ran, "136x72x64 by gemm_64x128x64_8_w1: all are right"));
}

TEST_CASE("conditions may use extents, for a kernel without parameters for sizes") {
  const Workshop w(PTXBUILDER_EMULATOR_LIBCUDA);
  good(w.exported(
      "gemm_warp_specialized --stages 2 --bm 64 --ptx --name product --config \"bn=64 if extent(A, 1) "
      "<= 64\" --config \"bm=128,bn=64\""));
  w.compile("product");
  w.link(kC, "product_main.c", "product.o");
  const std::string words = seed();
  CAPTURE(words);
  const Ran ran = w.launched(words + " 64x128x72 136x72x64");
  CHECK(contains(ran, "64x128x72 by gemm_warp_specialized: all are right"));
  CHECK(contains(ran, "136x72x64 by gemm_warp_specialized: all are right"));
}

TEST_CASE("a matrix product uses the tile of the nearest shape, and has each tile once") {
  const Workshop w(PTXBUILDER_EMULATOR_LIBCUDA);
  std::ofstream(w.path("shapes"))
      << "# m x n x k\n128x2112x7168, 512x1280x8192\n128x2112x7168\n64x256x2048\n";
  const Ran made = good(w.exported("gemm --ptx --name product --json --shapes " + w.path("shapes")));
  const auto json = nlohmann::json::parse(made.output);
  CHECK(json["files"] == nlohmann::json({w.path("product.h"), w.path("product.c")}));
  REQUIRE(json["shapes"].size() == 4);
  REQUIRE(json["kernels"].size() == 3);
  CHECK(json["shapes"][2]["kernel"] == 0);
  auto kernel = [&](int i) { return json["kernels"][i].get<std::string>(); };
  CHECK(kernel(0) == "gemm_64x32x64_16_2x1_w1");
  w.compile("product");
  w.link(kC + " -DWITH_SIZES", "product_main.c", "product.o");
  const std::string words = seed();
  CAPTURE(words);
  // In powers of 2, the second configuration is 9.8, 7.3 and 6.0 away from the shapes, and the third 10.5, 8
  // and 9.3.
  const Ran ran = w.launched(words + " 40x80x136 512x128x520 512x640x64 128x1056x72");
  CHECK(contains(ran, "40x80x136 by " + kernel(2) + ": all are right"));
  CHECK(contains(ran, "512x128x520 by " + kernel(2) + ": all are right"));
  CHECK(contains(ran, "512x640x64 by " + kernel(1) + ": all are right"));
  CHECK(contains(ran, "128x1056x72 by " + kernel(0) + ": all are right"));
}

TEST_CASE("an attention uses the tile of the nearest shape, and none of these needs whole blocks of keys") {
  const Workshop w(PTXBUILDER_EMULATOR_LIBCUDA);
  const Ran made =
      good(w.exported("attention --causal yes --type bf16 --depth 64 --group 2 --ptx --json --shapes "
                      "2048x2048x32x1,16x4096x4x1,2048x2048x32x2"));
  const auto json = nlohmann::json::parse(made.output);
  REQUIRE(json["shapes"].size() == 3);
  REQUIRE(json["kernels"].size() == 2);
  CHECK(json["shapes"][1]["size"] == nlohmann::json({16, 4096, 4, 1}));
  CHECK(json["shapes"][1]["kernel"] == 1);
  CHECK(json["shapes"][2]["kernel"] == 0);
  CHECK(json["warnings"].size() == 3);
  CHECK(json["warnings"][1].get<std::string>().starts_with("16x4096x4x1: heads_in_wave = "));
  const std::string header = text_of(w.path("attention.h"));
  for (const char* said : {"Kernel attention (2):", "the nearest queries x keys x heads x batches:",
                           "   16 x 4096 x 4 x 1: attention (2); heads_in_wave = "})
    CHECK_MESSAGE(header.find(said) != std::string::npos, said);
  w.compile("attention");
  w.link(kC, "attention_main.c", "attention.o -lm");
  const std::string words = seed();
  CAPTURE(words);
  const Ran ran = w.launched(words + " 150x200x2x1 5x150x2x2");
  CHECK(contains(ran, "150x200x2x1 by attention: all are right\n5x150x2x2 by attention: all are right"));

  good(w.exported("attention --name unmasked --ptx --shapes 1024x1024x32x1"));
  CHECK(text_of(w.path("unmasked.h")).find("whole_blocks=no") != std::string::npos);
  CHECK(contains(w.exported("attention --packed yes --ptx --shapes 512x512x4x1"), "leave out --shapes"));
  CHECK(contains(w.exported("attention --heads_in_rows 4 --ptx --shapes 1x512x4x1"), "leave out --shapes"));
  CHECK(contains(w.exported("attention --ptx --shapes 512x512x4"),
                 "'512x512x4' has 3 numbers, but a shape of this kernel has 4"));
  CHECK(contains(w.exported("attention --ptx --shapes ,"),
                 "write QUERIESxKEYSxHEADSxBATCHES,QUERIESxKEYSxHEADSxBATCHES,..."));
}

TEST_CASE("a rule has the same value in C as here") {
  struct Values final : RuleValues {
    uint64_t bits(size_t i) const override { return i == 0 ? 1000 : 7; }
    uint64_t extent(size_t, size_t) const override { return 0; }
    int64_t multiprocessors() const override { return 132; }
  };
  const std::vector<Parameter> parameters = {{.name = "n"}, {.name = "m"}};
  const char* rules[] = {"n - m - 1",
                         "n / m * m + n % m == n",
                         "ceil_div(n, m) - -m",
                         "n >= m",
                         "min(n, m) < max(n, m)",
                         "m >= n",
                         "n <= m",
                         "n > m",
                         "n != 1000",
                         "n == m > 2",
                         "(n != m) * 3",
                         "n / (m - 7)",
                         "n % (m - 7)",
                         "ceil_div(0 - n, m)",
                         "-9223372036854775807",
                         "m != 7",
                         "9223372036854775807 + m",
                         "multiprocessors % 5"};
  std::string c = "#include <stdint.h>\n#include <stdio.h>\n" + LaunchRule::c_functions() +
                  "int main(void) {\n  const char* wrong;\n"
                  "  int64_t n = 1000, m = 7, multiprocessors = 132, is;\n";
  std::string expected;
  for (const char* text : rules) {
    const LaunchRule rule("rule", text, parameters);
    c += fmt::format(
        "  wrong = NULL, is = {};\n  printf(\"%lld %s\\n\", (long long)(wrong ? 0 : is), wrong ? "
        "wrong : \"\");\n",
        rule.as_c([&](size_t i) { return rule.names()[i].text; }, "wrong"));
    try {
      expected += fmt::format("{} \n", rule.value(Values()));
    } catch (const Error& e) {
      const std::string message = e.what(), before = fmt::format("rule = '{}': ", text);
      expected += "0 " + message.substr(before.size(), message.find(", with") - before.size()) + "\n";
    }
  }
  const Folder folder;
  std::ofstream(folder.path("rules.c")) << c << "  return 0;\n}\n";
  const std::string program = folder.path("rules");
  good(shell(fmt::format("{} -Wno-unused-function {}.c -o {}", kC, program, program)));
  CHECK(shell(program).output == expected);
}

TEST_CASE("kernels that cannot be exported are refused") {
  const Workshop w(PTXBUILDER_MOCK_LIBCUDA);
  auto refused = [&](const std::string& words, const std::string& text) {
    const Ran ran = w.exported(words + " --ptx");
    CHECK(ran.code == 2);
    CHECK(contains(ran, text));
  };
  refused("saxpy --name 2x", "'2x' must be a name that is valid for a C function");
  refused("saxpy --name int", "'int' must be a name that is valid for a C function");
  refused("saxpy --config \"threads=64\" --config \"threads=32\"", "configuration 1 has no condition");
  refused("saxpy --config \"threads=64 if count < 9\"",
          "the last configuration has the condition 'count < 9'");
  refused("saxpy --config \"threads=64 if m < 9\" --config \"threads=32\"",
          "condition 1 = 'm < 9', column 1: there is no 'm'; the names are count, multiprocessors");
  refused("saxpy --config \"threads 64\"", "'threads' must be FIELD=VALUE");
  refused("saxpy --config \"threads=few\"", "field threads = few: it must be a number");
  refused("saxpy --config \"thread=1\"", "no field is named 'thread'; the fields are m, n, threads");
  refused("saxpy --config \"threads=64 if \"", "there is no condition after 'if'");
  refused("gemm --bm 64 --consumers 1 --config \"split_last=4 if M > 64\" --config \"split_last=1\"",
          "the configurations 1 and 2 have different parameters, but one launch function serves all: "
          "parameter 7 is a pointer to f32 'workspace' and nothing");
  refused("gemm --config \"a=f64\"", "field a = f64: it must be one of bf16, f16");
  refused("gemm --shapes 128x128", "'128x128' has 2 numbers, but a shape of this kernel has 3");
  refused("gemm --shapes 128x0x128", "'0' in '128x0x128' must be a number from 1");
  refused("gemm --shapes ,", "',' has no shape before a comma");
  refused("gemm --split_last 4 --shapes 512x512x512",
          "--split_last 4: --shapes chooses this field, and for 512x512x512 its value is 1: pass only one of "
          "the two options");
  CHECK(w.exported("saxpy --shapes 1x2x3").code == 2);
  CHECK(w.exported("gemm --shapes 1x2x3 --config bm=64").code == 2);
  CHECK(w.exported("saxpy --name right --ptx --config \"if count < 9\" --config threads=64").code == 0);
}

TEST_CASE(
    "the header describes how a tensor must be laid out, and a shape whose rows need gaps is reported") {
  const Workshop w(PTXBUILDER_MOCK_LIBCUDA);
  const Ran even = good(w.exported("gemm --ptx --a e4m3 --shapes 512x512x256"));
  CHECK(even.output.find("warning") == std::string::npos);
  const std::string header = text_of(w.path("gemm.h"));
  for (const char* said :
       {"void* data; /* e4m3 on the device, at a multiple of 16 B */", "{C, R} for R rows of C",
        "a multiple of 16, and at least shape[0] * 1.", "only if shape[0] is a multiple of 16. */",
        "a multiple of 16, and at least shape[0] * 2.", "only if shape[0] is a multiple of 8. */",
        "shapes must agree with each other"})
    CHECK_MESSAGE(header.find(said) != std::string::npos, said);
  CHECK(contains(
      good(w.exported("gemm --ptx --shapes 512x512x255,512x500x256")),
      "warning: 512x512x255: rows (k of 510 B in A, k of 510 B in B) are not multiples of 16 B: a launch "
      "needs gaps after them, which stride_bytes adds\nwarning: 512x500x256: rows (n of 1000 B in D)"));
  const Ran json = good(w.exported("gemm --ptx --json --shapes 512x512x255"));
  CHECK(nlohmann::json::parse(json.output)["warnings"].size() == 1);
}

TEST_CASE("a kernel that adds up across CTAs says how much workspace it needs") {
  const Workshop w(PTXBUILDER_MOCK_LIBCUDA);
  good(w.exported("gemm --split_last 4 --ptx"));
  w.compile("gemm");
  const std::string header = text_of(w.path("gemm.h"));
  CHECK(header.find("float* workspace, const uint32_t grid[3]") != std::string::npos);
  // There are 132 CTAs of 2 warpgroups, twice, with 64 x 256 sums of 4 bytes, and a mark of 8 bytes for each
  // 64 x 8 sums.
  CHECK(header.find("workspace: f32 on the device; 34738176 B at a multiple of 16, with any contents") !=
        std::string::npos);
}

}  // namespace ptxbuilder::test::export_test
