// Tests `ptxb sim` without its command line: launch files, their errors, and runs.
#include "kernels/simulate/simulate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <set>
#include <tuple>

#include "emulator_kit.h"
#include "error_kit.h"
#include "kernels/simulate/triton.h"

namespace ptxbuilder::test::simulate_test {
using namespace command;

namespace {

// out[i] = in[i] + add, where i numbers the x by y threads. The bytes of the struct are stored to `also`.
const char* const add_kernel = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 in, .param .u64 out, .param .s32 add, .param .align 8 .b8 rest[16]) {
.reg .b32 %r<8>; .reg .b64 %rd<8>;
ld.param.u64 %rd0, [in]; ld.param.u64 %rd1, [out]; ld.param.u32 %r0, [add]; ld.param.u64 %rd2, [rest]; ld.param.u32 %r1, [rest+12];
mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.u32 %r2, %r2, %r3, %r4;
mul.wide.u32 %rd3, %r2, 4; add.s64 %rd0, %rd0, %rd3; add.s64 %rd1, %rd1, %rd3;
ld.global.u32 %r5, [%rd0]; add.u32 %r5, %r5, %r0; st.global.u32 [%rd1], %r5; st.global.u32 [%rd2], %r1;
ret;
}
.visible .entry other() { ret; }
)";

const std::string good = R"({"entry": "add", "grid": 1, "block": [4, 2],
"buffers": [{"name": "a", "dtype": "s32", "shape": [4, 2], "init": "iota"},
            {"name": "b", "dtype": "s32", "shape": [8], "init": "poison"},
            {"name": "c", "dtype": "u32", "shape": [1]}],
"parameters": [{"pointer": "a"}, {"pointer": "b"}, {"scalar": "s32", "value": -3},
               {"struct": [{"at": 0, "pointer": "c"}, {"at": 12, "scalar": "u32", "value": 4000000000}], "bytes": 16}],
"outputs": [{"buffer": "b", "print": 3, "equals": [-3, -2, -1, 0, 1, 2, 3, 4]}, {"buffer": "c", "equals": 4000000000}]})";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

Simulation run(const std::string& json, const SimulateOptions& options = {}) {
  return simulate(add_kernel, launch_from_json(json, "launch.json"), options);
}

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("ptxbuilder_simulate_test_{}", getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("a launch file runs a kernel: blocks of two dimensions, scalars, pointers and structs") {
  SimulateOptions options;
  options.schedules = 3;
  Simulation s = run(good, options);
  CHECK(s.right());
  CHECK(s.schedules == 3);
  CHECK(s.entry == "add");
  REQUIRE(s.printed.size() == 1);
  CHECK(s.printed[0].second == "-3 -2 -1 ...");
  REQUIRE(s.comparisons.size() == 2);
  CHECK(s.comparisons[0].count == 8);
}

TEST_CASE("a wrong element is named, with its schedule, and ends the schedules") {
  SimulateOptions options;
  options.schedules = 3;
  options.emulator.seed = 7;
  Simulation s = run(changed(good, "0, 1, 2, 3, 4]", "0, 1, 9, 9, 4]"), options);
  CHECK_FALSE(s.right());
  CHECK(s.schedules == 1);
  CHECK(s.comparisons[0].wrong == 2);
  CHECK(s.comparisons[0].max_error == 7);
  CHECK(s.comparisons[0].first_wrong == "b[5] is 2, expected 9 +- 0 (schedule of seed 7)");
  CHECK(s.comparisons[1].wrong == 0);
  CHECK(run(changed(good, "3, 4]}", "3, 5]}"), options).comparisons[0].wrong == 1);
  CHECK(run(changed(good, "3, 4]}", "3, 5], \"tolerance\": 1}"), options).right());
  CHECK(run(changed(good, "3, 4]}", "3, 5], \"relative\": 0.2}"), options).right());
  CHECK_FALSE(run(changed(good, "3, 4]}", "3, 5], \"relative\": 0.19}"), options).right());
}

TEST_CASE("what is wrong in a launch file is named by its path") {
  struct Case {
    const char *from, *to, *text;
  };
  const Case cases[] = {
      {"\"grid\": 1", "\"grid\": 1, \"gird\": 2",
       "launch.json: \"gird\" is not a member; the members are entry, grid"},
      {"\"grid\": 1, ", "", "launch.json: grid: it is missing, and there is no sidecar"},
      {"\"grid\": 1", "\"grid\": 0", "launch.json: grid: 0 is less than 1"},
      {"\"grid\": 1", "\"grid\": -1", "launch.json: grid: -1 is less than 1"},
      {"\"grid\": 1", "\"grid\": 1, \"cooperative\": 1",
       "launch.json: cooperative: expected true or false, found 1"},
      {"\"grid\": 1", "\"grid\": [1, 1.5]", "launch.json: grid[1]: expected a whole number, found 1.5"},
      {"[4, 2]", "[4, 2, 1, 1]", "launch.json: block: expected 1 to 3 items, found 4"},
      {"\"block\": [4, 2]", "\"block\": 1025", "launch.json: block: 1025 exceeds 1024"},
      {"\"s32\", \"shape\": [4", "\"int\", \"shape\": [4",
       "launch.json: buffers[0].dtype: 'int' is not an element type; the types are u8, s8, u16"},
      {"\"name\": \"b\"", "\"name\": \"a\"",
       "launch.json: buffers[1].name: the name of buffer 'a' is used twice"},
      {"\"shape\": [8]", "\"shape\": []", "launch.json: buffers[1].shape: expected 1 to 8 items, found 0"},
      {"\"shape\": [8]", "\"shape\": [4294967296, 2]",
       "buffers[1].shape: the buffers have more than 17179869184 bytes"},
      {"\"iota\"", "\"noise\"", "launch.json: buffers[0].init: expected \"zeros\", \"poison\", \"iota\""},
      {"\"iota\"", "[1, 2]", "launch.json: buffers[0].init: expected 8 items, found 2"},
      {"\"iota\"", "1.5", "launch.json: buffers[0].init: 1.5 is not of type s32"},
      {"\"iota\"", "{\"file\": \"nowhere.bin\"}", "buffers[0].init.file: nowhere.bin cannot be read"},
      {"\"iota\"", "\"iota\", \"seed\": 1", "buffers[0].seed: only \"init\": \"normal\" has a seed"},
      {"{\"pointer\": \"a\"}", "{\"pointer\": \"z\"}",
       "launch.json: parameters[0].pointer: there is no buffer 'z'; the buffers are a, b, c"},
      {"{\"pointer\": \"a\"}", "{\"pointer\": \"a\", \"offset\": 33}", "parameters[0].offset: 33 exceeds 32"},
      {"{\"pointer\": \"a\"}", "{\"adress\": \"a\"}", "launch.json: parameters[0]: it is a \"scalar\""},
      {"\"value\": -3", "\"value\": 2147483648", "parameters[2].value: 2147483648 does not fit in s32"},
      {"\"value\": 4000000000", "\"value\": -1", "parameters[3].struct[1].value: -1 does not fit in u32"},
      {"{\"at\": 12,", "{\"at\": 13,",
       "parameters[3].struct[1]: 4 B at byte 13 do not fit in a struct of 16 B"},
      {"{\"at\": 12,", "{", "parameters[3].struct[1]: the member \"at\" is missing"},
      {"{\"pointer\": \"b\"}", "{\"at\": 0, \"pointer\": \"b\"}", "parameters[1].at: only the members of a"},
      {"{\"buffer\": \"c\", \"equals\": 4000000000}", "{\"buffer\": \"c\"}",
       "launch.json: outputs[1]: nothing is done with it"},
      {"\"print\": 3", "\"print\": 9", "launch.json: outputs[0].print: 9 exceeds 8"},
      {"\"equals\": 4000000000", "\"print\": 1, \"tolerance\": 1",
       "outputs[1].tolerance: there is nothing to compare with"},
      {"\"equals\": 4000000000", "\"equals\": {\"buffer\": \"a\"}",
       "outputs[1].equals.buffer: it has 8 elements, not 1"},
      {"\"equals\": 4000000000", "\"equals\": 0, \"relative\": -1", "outputs[1].relative: -1 is less than 0"},
      // The PTX contradicts these launch files.
      {"\"add\"", "\"sub\"", "launch.json: entry: 'sub' is not in the PTX, which has add, other"},
      {"\"entry\": \"add\", ", "", "launch.json: entry: the PTX has add, other; name one of them"},
      {"\"add\"", "\"other\"", "launch.json: parameters: 4 were given, but 'other' takes 0"},
      {",\n               {\"struct\": [{\"at\": 0, \"pointer\": \"c\"}, {\"at\": 12, \"scalar\": \"u32\", "
       "\"value\": 4000000000}], \"bytes\": 16}",
       "", "launch.json: parameters: 3 were given, but 'add' takes 4; the next is 'rest'"},
      {"\"scalar\": \"s32\"", "\"scalar\": \"s64\"",
       "launch.json: parameters[2]: it has 8 B, but the parameter 'add' of the PTX has 4 B"},
      {", \"block\": [4, 2]", "",
       "launch.json: block: it is missing, and the PTX has neither .reqntid nor a sidecar"},
  };
  CHECK_NOTHROW(run(good));
  for (const Case& c : cases) {
    CAPTURE(c.to);
    CHECK_ERROR(run(changed(good, c.from, c.to)), c.text);
  }
}

TEST_CASE("what is no JSON is named by line and column; comments are none of it") {
  CHECK_ERROR(run(changed(good, "\"dtype\": \"s32\", \"shape\": [8]", "\"dtype\": \"s32\" \"shape\": [8]")),
              "launch.json: line 3, column 48: no JSON: syntax error");
  CHECK_ERROR(run(""), "launch.json: line 1, column 1: no JSON");
  CHECK(run(changed(good, "\"buffers\"", "// three\n\"buffers\"")).right());
}

TEST_CASE("a number that an element cannot hold is refused, floats too") {
  const auto with = [&](const char* type, const char* value) {
    return changed(good, R"({"scalar": "s32", "value": -3})",
                   fmt::format(R"({{"scalar": "{}", "value": {}}})", type, value));
  };
  CHECK_ERROR(run(with("f32", "1e300")),
              "parameters[2].value: 1e+300 does not fit in f32, whose greatest number is 3.40282e+38");
  CHECK_ERROR(run(with("f16", "70000")), "70000 does not fit in f16, whose greatest number is 65504");
  CHECK_ERROR(run(with("e4m3", "449")), "449 does not fit in e4m3, whose greatest number is 448");
  CHECK_ERROR(run(with("f32", "1e999")), "launch.json: line 5, column 79: a double cannot hold 1e999");
  CHECK_ERROR(run(changed(good, "\"grid\"", "\"grid\": 1, \"grid\"")),
              "the member \"grid\" appears twice in one object");
}

TEST_CASE("JSON that nests deeply is refused where it does") {
  const std::string deep(200000, '['), objects = [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "{\"a\":";
    return text;
  }();
  CHECK_ERROR(run(deep), "launch.json: line 1, column 65: JSON is nested more than 64 levels deep");
  CHECK_ERROR(run(objects), "launch.json: line 1, column 321: JSON is nested more than 64 levels deep");
  CHECK_ERROR(run("{\"grid\":\n" + deep + std::string(200000, ']') + "}"),
              "launch.json: line 2, column 64: JSON is nested more than 64 levels deep");
  CHECK_ERROR(signature_from_json(deep, "k.json"),
              "k.json: line 1, column 65: JSON is nested more than 64 levels deep");
  const std::string brackets = std::string(100, '[') + "\\\"";
  CHECK(
      run(changed(good, "\"buffers\"", "// " + brackets + "\n/* " + brackets + " */\n\"buffers\"")).right());
  CHECK_ERROR(run(changed(good, "\"grid\": 1", "\"grid\": \"" + brackets + "\"")),
              "launch.json: grid: expected a whole number");
  CHECK_ERROR(run(changed(good, "\"grid\": 1", "\"grid\": [[[1]]]")),
              "launch.json: grid[0]: expected a whole number, found [[1]]");
}

TEST_CASE("tensor maps are held to their rules, and to the memory of their buffer") {
  auto with_map = [](const std::string& map) {
    return "{\"grid\": 1, \"block\": 32, \"buffers\": [{\"name\": \"a\", \"dtype\": \"bf16\", \"shape\": "
           "[64, "
           "16]}], \"parameters\": [{\"tensor_map\": \"a\", " +
           map + "}]}";
  };
  const LaunchFile file =
      launch_from_json(with_map(R"("box": [32, 8], "swizzle": "64", "oob_fill": "nan")"), "l.json");
  const runtime::TensorMapArguments& map = file.launches.at(0).parameters.at(0).map;
  CHECK(map.shape == std::vector<uint64_t>{64, 16});
  CHECK(map.strides == std::vector<uint64_t>{128});
  CHECK(map.recipe.swizzle == Swizzle::b64);
  CHECK(map.recipe.oob_fill == OobFill::nan);
  CHECK(map.recipe.element_strides == std::vector<uint32_t>{1, 1});
  struct Case {
    const char *map, *text;
  };
  const Case cases[] = {
      {R"("box": [32, 300])", "l.json: parameters[0].box[1]: 300 exceeds 256"},
      {R"("box": [60, 8])",
       "l.json: parameters[0].box[0]: box[0] = 60 x bf16 = 120 B is not a multiple of 16"},
      {R"("box": [64, 8], "swizzle": "64")",
       "l.json: parameters[0].box[0]: box[0] = 64 x bf16 = 128 B exceeds"},
      {R"("box": [64, 8], "swizzle": 64)",
       "parameters[0].swizzle: 64 is not one of \"none\", \"32\", \"64\""},
      {R"("box": [64])", "l.json: parameters[0].box: expected 2 items, found 1"},
      {R"("box": [8, 8], "strides": [136])", "parameters[0].strides[0]: the stride of dimension 1, 136 B"},
      {R"("box": [8, 8], "strides": [112])", "parameters[0].strides[0]: the stride of dimension 1, 112 B"},
      {R"("box": [8, 8], "offset": 8)", "parameters[0].offset: the address 0x8 is not a multiple of 16 B"},
      {R"("box": [8, 8], "offset": 128)", "parameters[0]: the tensor has 2048 B from byte 128"},
      {R"("box": [8, 8], "shape": [64, 17])", "parameters[0]: the tensor has 2176 B from byte 0"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.map);
    CHECK_ERROR(launch_from_json(with_map(c.map), "l.json"), c.text);
  }
  const LaunchFile of_windows =
      launch_from_json(with_map(R"("box": [8, 8], "strides": [112], "overlaps": true)"), "l.json");
  CHECK(of_windows.launches.at(0).parameters.at(0).map.overlaps);
}

TEST_CASE("files are read and written next to the launch file") {
  Folder folder;
  const float values[] = {1, 2.5f, -3};
  std::ofstream(folder.path / "in.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(values), sizeof values);
  const std::string json = R"({"grid": 1, "block": 1, "entry": "other",
"buffers": [{"name": "a", "dtype": "f32", "shape": [3], "init": {"file": "in.bin"}},
            {"name": "n", "dtype": "f16", "shape": [2000], "init": "normal", "seed": 4},
            {"name": "m", "dtype": "e4m3", "shape": [2000], "init": "normal"}],
"outputs": [{"buffer": "a", "equals": [1, 2.5, -3], "write": "out.bin"}, {"buffer": "a", "equals": {"file": "in.bin"}},
            {"buffer": "n", "write": "n.bin"}, {"buffer": "m", "write": "m.bin"}]})";
  auto bytes = [&](const char* name) {
    std::ifstream in(folder.path / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  auto simulate_seed = [&](uint64_t seed) {
    SimulateOptions options;
    options.emulator.seed = seed;
    return simulate(add_kernel, launch_from_json(json, folder.path / "launch.json"), options);
  };
  Simulation s = simulate_seed(1);
  CHECK(s.right());
  CHECK(s.written.size() == 3);
  CHECK(bytes("out.bin") == bytes("in.bin"));
  const std::string n = bytes("n.bin"), m = bytes("m.bin");
  double sum = 0, squares = 0;
  for (size_t i = 0; i < 2000; ++i) {
    uint16_t code;
    std::memcpy(&code, n.data() + 2 * i, 2);
    const double value = static_cast<double>(runtime::emulator::from_f16(code));
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / 2000) < 0.1);
  CHECK(std::abs(squares / 2000 - 1) < 0.15);
  simulate_seed(2);
  CHECK(bytes("n.bin") == n);  // the buffer has its own seed
  CHECK(bytes("m.bin") != m);  // the buffer uses the seed of the run
  std::filesystem::resize_file(folder.path / "in.bin", 8);
  CHECK_ERROR(simulate_seed(1), "buffers[0].init.file");
  CHECK_ERROR(simulate_seed(1), "in.bin has 8 bytes, but the buffer has 12");
}

TEST_CASE("every element type takes values and gives them back") {
  for (int type = 0; type <= static_cast<int>(DType::f64); ++type) {
    const std::string name(ptxbuilder::name(static_cast<DType>(type)));
    CAPTURE(name);
    Simulation s = simulate(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 32 { ret; }",
        launch_from_json(fmt::format(R"({{"grid": 1, "buffers": [{{"name": "a", "dtype": "{}", "shape": [4],
                     "init": "iota"}}], "outputs": [{{"buffer": "a", "print": 4, "equals": [0, 1, 2, 3]}}]}})",
                                     name),
                         "l.json"),
        {});
    CHECK(s.right());
    CHECK(s.printed.at(0).second == "0 1 2 3");
  }
}

TEST_CASE("what a launch file leaves out is the sidecar's, and what it says is not") {
  // Each CTA writes the numbers of its threads, the bytes of its dynamic shared memory, and the CTAs of its
  // cluster.
  const std::string ptx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<4>; .reg .b64 %rd<2>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %ntid.x; mov.u32 %r1, %dynamic_smem_size; mov.u32 %r2, %cluster_nctaid.x;
st.global.u32 [%rd0], %r0; st.global.u32 [%rd0+4], %r1; st.global.u32 [%rd0+8], %r2;
ret;
}
)";
  SimulateOptions options;
  auto ran = [&](const std::string& more) {
    return simulate(
               ptx,
               launch_from_json(
                   R"({"grid": 4, "buffers": [{"name": "d", "dtype": "u32", "shape": [3], "init": "poison"}],
               "parameters": [{"pointer": "d"}], "outputs": [{"buffer": "d", "print": 3}])" +
                       more + "}",
                   "l.json"),
               options)
        .printed[0]
        .second;
  };
  CHECK_ERROR(ran(""), "l.json: block: it is missing");
  options.sidecar = [](const std::string& kernel) -> std::optional<Signature> {
    if (kernel != "k") return std::nullopt;
    Signature signature;
    signature.kernel = kernel;
    signature.threads = 64;
    signature.cluster = {2, 1, 1};
    signature.dynamic_shared_bytes = 512;
    return signature;
  };
  CHECK(ran("") == "64 512 2");
  CHECK(ran(R"(, "block": 32)") == "32 512 2");
  CHECK(ran(R"(, "cluster": 4)") == "64 512 4");
  CHECK(ran(R"(, "dynamic_shared_bytes": 0)") == "64 0 2");
  options.sidecar = [](const std::string&) { return std::nullopt; };
  CHECK_ERROR(ran(""), "l.json: block: it is missing");
  CHECK(ran(R"(, "block": 32)") == "32 0 1");
}

TEST_CASE("the grid comes from the sidecar's rule where the file says none") {
  const char* ptx =
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .u32 n, .param .align 64 .b8 a[128]) { ret; }";
  SimulateOptions options;
  Signature signature;
  signature.threads = 32;
  signature.parameters = {{.name = "n"}, {.name = "a", .kind = Parameter::Kind::tensor_map}};
  signature.parameters[1].tensor_map.box = {8, 8};
  signature.grid = {"ceil_div(n, 100)", "extent(a, 1)", "1"};
  options.sidecar = [&](const std::string&) { return signature; };
  auto ran = [&](int n, const char* grid = "") {
    const std::string file = fmt::format(
        R"({{{} "buffers": [{{"name": "a", "dtype": "f32", "shape": [16, 8]}}], "parameters": [
            {{"scalar": "u32", "value": {}}}, {{"tensor_map": "a", "box": [8, 8]}}]}})",
        grid, n);
    return simulate(ptx, launch_from_json(file, "l.json"), options).statistics.ctas;
  };
  CHECK(ran(201) == 3 * 8);
  CHECK(ran(201, "\"grid\": 5,") == 5);
  CHECK_ERROR(ran(0), "l.json: grid.x = 'ceil_div(n, 100)': it is 0");
  signature.grid = {"multiprocessors", "1", "1"};
  CHECK(ran(1) == 132);
  std::swap(signature.parameters[0], signature.parameters[1]);
  signature.grid = {"n", "1", "1"};
  CHECK_ERROR(ran(1), "l.json: parameters[1]: the rule of the grid needs a scalar here");
  signature.grid = std::nullopt;
  CHECK_ERROR(ran(1), "l.json: grid: it is missing, and there is no sidecar with a rule for it");
}

TEST_CASE("what the PTX requires of block and cluster is taken from there, and not contradicted") {
  const char* ptx =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 32, 2 .reqnctapercluster "
      "2 { ret; }";
  auto ran = [&](const char* more) {
    return simulate(ptx, launch_from_json(fmt::format("{{\"grid\": 4{}}}", more), "l.json"), {});
  };
  CHECK(ran("").statistics.ctas == 4);
  CHECK(ran(", \"block\": [32, 2], \"cluster\": 2").statistics.ctas == 4);
  CHECK_ERROR(ran(", \"block\": 64"), "l.json: block: 64 x 1 x 1, but the PTX requires 32 x 2 x 1");
  CHECK_ERROR(ran(", \"cluster\": 1"), "l.json: cluster: 1 x 1 x 1, but the PTX requires 2 x 1 x 1");
}

TEST_CASE("names of shared memory come with the launch file, and into reports") {
  const char* ptx =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
      ".visible .entry k() .reqntid 32 {\n.reg .b32 %r<3>; .reg .pred %p; mov.u32 %r0, smem; ld.shared.b32 "
      "%r1, "
      "[%r0+72];\nsetp.eq.u32 %p, %r1, 0;\n@%p bra E;\nE: ret;\n}";
  auto ran = [&](const char* shared) {
    return error_of([&] {
      const Simulation s = simulate(
          ptx,
          launch_from_json(
              fmt::format(R"({{"grid": 1, "dynamic_shared_bytes": 128, "shared": [{}]}})", shared), "l.json"),
          {});
      if (!s.faults.empty()) throw Error(s.faults[0].report);
    });
  };
  CHECK(ran(R"({"name": "sA", "offset": 0, "bytes": 32, "stages": 3})").find("this reads sA[2]+8,") !=
        std::string::npos);
  CHECK(ran(R"({"name": "sA", "offset": 0, "bytes": 64})").find("this reads smem+72,") != std::string::npos);
  CHECK(ran(R"({"offset": 0, "bytes": 64})") == "l.json: shared[0]: the member \"name\" is missing");
}

TEST_CASE("variables of the module begin anew with each schedule") {
  const char* ptx =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.global .align 4 .u32 count = 5;\n"
      ".visible .entry k(.param .u64 p) .reqntid 1 {\n.reg .b32 %r; .reg .b64 %d; ld.param.u64 %d, [p]; "
      "atom.global.add.u32 %r, [count], 1; st.global.u32 [%d], %r;\nret;\n}";
  SimulateOptions options;
  options.schedules = 3;
  const Simulation s =
      simulate(ptx,
               launch_from_json(R"({"grid": 1, "buffers": [{"name": "p", "dtype": "u32", "shape": [1]}],
                           "parameters": [{"pointer": "p"}], "outputs": [{"buffer": "p", "equals": 5}]})",
                                "l.json"),
               options);
  CHECK(s.schedules == 3);
  CHECK_MESSAGE(s.right(), s.comparisons[0].first_wrong);
}

namespace {

const std::string module_head = ".version 8.0\n.target sm_90a\n.address_size 64\n";

Simulation run_ptx(const std::string& ptx, const std::string& json, const SimulateOptions& options = {}) {
  return simulate(module_head + ptx, launch_from_json(json, "l.json"), options);
}

}  // namespace

TEST_CASE("a buffer may be a variable of the module: __device__ and __constant__ memory") {
  const std::string ptx = R"(.const .align 4 .b8 _ZN2ns5tableE[16] = {1, 0, 0, 0, 2};
.global .align 4 .u32 count = 5;
.visible .entry k(.param .u64 p) .reqntid 1 {
.reg .b32 %r<3>; .reg .b64 %d; ld.param.u64 %d, [p];
ld.const.u32 %r0, [_ZN2ns5tableE+4]; ld.global.u32 %r1, [count]; add.u32 %r1, %r1, %r0;
st.global.u32 [count], %r1; st.global.u32 [%d], %r1;
ret;
}
)";
  auto json = [](const char* first, const char* second) {
    return fmt::format(R"({{"grid": 1, "buffers": [{{"name": "d", "dtype": "u32", "shape": [1]}},
{{"name": "t", "symbol": {}, "dtype": "u32", "shape": [4]}}, {{"name": "c", "symbol": {}, "dtype": "u32", "shape": [1]}}],
"parameters": [{{"pointer": "d"}}], "outputs": [{{"buffer": "d", "print": 1}}, {{"buffer": "c", "print": 1}}]}})",
                       first, second);
  };
  SimulateOptions options;
  options.schedules = 2;
  Simulation s = run_ptx(ptx, json("\"_ZN2ns5tableE\"", "\"count\""), options);
  CHECK(s.printed.at(0).second == "7");
  CHECK(s.printed.at(1).second == "7");
  s = run_ptx(ptx, json(R"("ns::table", "init": [0, 40, 0, 0])", R"("count", "init": 2)"), options);
  CHECK(s.printed.at(0).second == "42");
  CHECK(s.printed.at(1).second == "42");
  CHECK_ERROR(
      run_ptx(ptx, json("\"tabel\"", "\"count\"")),
      "l.json: buffers[1].symbol: the PTX has no variable 'tabel' in .global or .const memory; it has "
      "ns::table, count");
  CHECK_ERROR(run_ptx(ptx, changed(json("\"ns::table\"", "\"count\""), "[4]", "[5]")),
              "l.json: buffers[1].symbol: the variable 'ns::table' has 16 B, but the buffer has 20");
}

TEST_CASE("parameters may be raw bytes and structs in structs; pointers and tensor maps lie in buffers") {
  // The parameter points to { u32 add; u32* to; }, which follows a tensor map of 128 bytes.
  const std::string ptx = R"(.visible .entry k(.param .u64 p, .param .align 8 .b8 s[24]) .reqntid 1 {
.reg .b32 %r<4>; .reg .b64 %d<4>; .shared .align 128 .b8 tile[64]; .shared .align 8 .b64 bar;
.reg .pred %q;
ld.param.u64 %d0, [p]; ld.global.u32 %r0, [%d0+128]; ld.global.u64 %d1, [%d0+136];
ld.param.u32 %r1, [s+12]; ld.param.u16 %r2, [s+16]; add.u32 %r0, %r0, %r1; add.u32 %r0, %r0, %r2;
mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%d0, {0}], [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;
@!%q bra W;
ld.shared.u32 %r3, [tile+4]; add.u32 %r0, %r0, %r3;
st.global.u32 [%d1], %r0;
ret;
}
)";
  const std::string json = R"({"grid": 1, "buffers": [
{"name": "all", "dtype": "u8", "shape": [256], "init": {"struct": [
  {"at": 0, "tensor_map": "a", "box": [16]}, {"at": 128, "scalar": "u32", "value": 1000}, {"at": 136, "pointer": "d"}]}},
{"name": "a", "dtype": "u32", "shape": [16], "init": "iota"}, {"name": "d", "dtype": "u32", "shape": [1]}],
"parameters": [{"pointer": "all"}, {"struct": [
  {"at": 8, "struct": [{"at": 4, "scalar": "u32", "value": 200}, {"at": 8, "raw": "1E 00"}], "bytes": 16}], "bytes": 24}],
"outputs": [{"buffer": "d", "equals": 1231}]})";
  const Simulation s = run_ptx(ptx, json);
  CHECK(s.faults.empty());
  CHECK(s.right());
  for (auto [from, to, text] :
       {std::tuple{"1E 00", "1E 0", "parameters[1].struct[0].struct[1].raw: expected bytes in hexadecimal"},
        std::tuple{"1E 00", "", "parameters[1].struct[0].struct[1].raw: it has no bytes"},
        std::tuple{"\"at\": 136, \"pointer\": \"d\"", "\"at\": 249, \"pointer\": \"d\"",
                   "buffers[0].init.struct[2]: 8 B at byte 249 do not fit in a struct of 256 B"},
        std::tuple{"\"pointer\": \"d\"", "\"pointer\": \"e\"",
                   "buffers[0].init.struct[2].pointer: there is no buffer 'e'; the buffers are all, a, d"}})
    CHECK_ERROR(run_ptx(ptx, changed(json, from, to)), text);
}

TEST_CASE("what is expected may be a formula of what the buffers were before") {
  auto ran = [](const std::string& formula) {
    return run_ptx(".visible .entry k() .reqntid 1 { ret; }", fmt::format(R"({{"grid": 1, "buffers": [
{{"name": "a", "dtype": "f32", "shape": [3, 2], "init": [1, 2, 3, 4, 5, 6]}},
{{"name": "b", "dtype": "f32", "shape": [2, 3], "init": {{"formula": "10 * i0 + i1"}}}},
{{"name": "c", "dtype": "f64", "shape": [2, 2], "init": {{"formula": "{}"}}}}],
"outputs": [{{"buffer": "c", "print": 4}}]}})",
                                                                          formula))
        .printed.at(0)
        .second;
  };
  CHECK(ran("sum(k, 3, a[k, i1] * b[i0, k])") == "8 68 17 167");
  CHECK(ran("i + 100 * i0 + 1000 * i1") == "0 101 1002 1103");
  CHECK(ran("select(i < 2, a[i], -a[2, 1])") == "1 2 -6 -6");
  CHECK(ran("max(i % 3, 1.5) - 2 * (i == 3)") == "1.5 1.5 2 -0.5");
  CHECK(ran("sum(n, i, sum(m, n + 1, m)) + exp(0) + abs(-2) + pow(2, 3)") == "11 11 12 15");
  CHECK(ran("1e1 + .5 + trunc(2.7) + sqrt(16) / 4 - rsqrt(4) * 2") == "12.5 12.5 12.5 12.5");
  for (auto [formula, text] :
       {std::pair{"a[i", "l.json: buffers[2].init.formula: column 4: expected ']', found the end"},
        std::pair{"1 +", "column 4: expected a value, found the end"},
        std::pair{"1 2", "column 3: expected an operator, found '2'"},
        std::pair{"z", "column 1: 'z' is not a number here; the numbers are i, i0, i1"},
        std::pair{"d[0]", "column 1: there is no buffer 'd'; the buffers are a, b"},
        std::pair{"cot(1)", "column 1: there is no function 'cot'; the functions are sum, select, abs, exp"},
        std::pair{"a[1, 1, 1]", "'a' takes 1 index or 2, not 3"},
        std::pair{"min(1)", "'min' takes 2 values, not 1"},
        std::pair{"a[i0 + 2, 0]", "'a[i0 + 2, 0]' at element 1: 3 is not an index 0 of a, whose extent is 3"},
        std::pair{"a[-1]", "-1 is not an index of a, whose extent is 6"},
        std::pair{"a[0.5]", "0.5 is not an index of a"},
        std::pair{"sum(k, 1e300, 1)", "a sum has 1e+300 terms, but may have at most 4.29497e+09"}})
    CHECK_ERROR(ran(formula), text);
  CHECK_ERROR(ran(std::string(100, '(')), "it is nested more than 64 levels deep");
  CHECK_ERROR(ran(std::string(100, '-') + "1"), "it is nested more than 64 levels deep");
}

TEST_CASE("files of numpy's are read and written by their headers") {
  Folder folder;
  const std::string json = R"({"grid": 1, "buffers": [
{"name": "a", "dtype": "f16", "shape": [3, 2], "init": "iota"}, {"name": "b", "dtype": "f16", "shape": [3, 2]}],
"outputs": [{"buffer": "a", "write": "a.npy"}]})";
  auto ran = [&](const std::string& text) {
    return simulate(module_head + ".visible .entry k() .reqntid 1 { ret; }",
                    launch_from_json(text, folder.path / "l.json"), {});
  };
  ran(json);
  std::ifstream in(folder.path / "a.npy", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  CHECK(bytes.size() == 128 + 12);
  CHECK(bytes.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK(bytes.substr(10, 61) == "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3,), } ");
  const std::string read =
      changed(json, "\"shape\": [3, 2]}", "\"shape\": [3, 2], \"init\": {\"file\": \"a.npy\"}}");
  CHECK(ran(changed(read, "\"buffer\": \"a\", \"write\": \"a.npy\"",
                    "\"buffer\": \"b\", \"equals\": {\"buffer\": \"a\"}"))
            .right());
  CHECK_ERROR(ran(changed(read, "\"b\", \"dtype\": \"f16\"", "\"b\", \"dtype\": \"bf16\"")),
              "a.npy has elements of type <f2, but the buffer has bf16, which is <u2");
  CHECK_ERROR(ran(changed(read, "[3, 2], \"init\": {", "[2, 3], \"init\": {")),
              "a.npy has the shape [3, 2], innermost first, but the buffer has [2, 3]");
  for (auto [at, text] :
       {std::pair{0, "it is not a .npy file"}, std::pair{45, "its elements are in Fortran order"}}) {
    std::string broken = bytes;
    broken[static_cast<size_t>(at)] = 'X';
    std::ofstream(folder.path / "a.npy", std::ios::binary) << broken;
    CHECK_ERROR(ran(read), text);
  }
}

TEST_CASE("several launches, one after the other or overlapping") {
  auto ptx = [](const std::string& wait) {
    return R"(.visible .entry first(.param .u64 p) .reqntid 64 {
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1;
st.global.u32 [%d0], %r0;
ret;
}
.visible .entry second(.param .u64 p, .param .u64 q) .reqntid 64 {
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d0, [p]; ld.param.u64 %d2, [q]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4;
add.s64 %d0, %d0, %d1; add.s64 %d2, %d2, %d1;
)" + wait + R"(ld.global.u32 %r1, [%d0]; add.u32 %r1, %r1, 1; st.global.u32 [%d2], %r1;
ret;
}
)";
  };
  const std::string json = R"({"launches": [
{"entry": "first", "grid": 1, "parameters": [{"pointer": "p"}]},
{"entry": "second", "grid": 1, "parameters": [{"pointer": "p"}, {"pointer": "q"}]}],
"buffers": [{"name": "p", "dtype": "u32", "shape": [64]}, {"name": "q", "dtype": "u32", "shape": [64]}],
"outputs": [{"buffer": "q", "equals": {"formula": "i + 1"}}]})";
  const std::string overlapping = changed(json, "\"second\",", "\"second\", \"overlaps\": true,");
  const Simulation s = run_ptx(ptx(""), json);
  CHECK(s.entry == "first, second");
  CHECK(s.finished);
  CHECK(s.faults.empty());
  CHECK(s.right());
  CHECK(s.statistics.launches == 2);
  CHECK(run_ptx(ptx("griddepcontrol.wait;\n"), overlapping).faults.empty());
  const Simulation early = run_ptx(ptx(""), overlapping);
  REQUIRE(early.faults.size() == 1);
  CHECK(early.faults[0].kind == runtime::Fault::race);
  CHECK(early.faults[0].report.find("of the previous launch, which may still be running, and no "
                                    "griddepcontrol.wait comes before this") != std::string::npos);
  CHECK_ERROR(run_ptx(ptx(""), changed(json, "\"second\"", "\"third\"")),
              "l.json: launches[1].entry: 'third' is not in the PTX, which has first, second");
  CHECK_ERROR(
      run_ptx(ptx(""), changed(json, "{\"launches\"", "{\"grid\": 1, \"launches\"")),
      "l.json: \"grid\" is not a member; the members are launches, buffers, outputs, shared, waivers");
  CHECK_ERROR(
      run_ptx(".global .u32 g;\n" + ptx(""), json),
      "l.json: launches[1].entry: the PTX has the variable g in .global memory, which launches of several "
      "kernels cannot share here");
}

TEST_CASE("all faults of a run are reported, each once, and those that are waived are not") {
  // Lines 6 and 8 race with other warps, and line 7 reads what nothing has written.
  const std::string ptx = R"(.visible .entry _Z4racePj(.param .u64 p) .reqntid 64 {
.reg .b32 %r<4>; .reg .b64 %d; .shared .align 4 .b8 s[16]; .reg .pred %q; mov.u32 %r0, %tid.x;
st.shared.u32 [s], %r0;
ld.shared.u32 %r1, [s+8]; ld.param.u64 %d, [p]; setp.lt.u32 %q, %r0, 32; @%q st.global.u32 [%d], %r1;
ld.shared.u32 %r2, [s];
ret;
}
)";
  const std::string json = R"({"grid": 1, "buffers": [{"name": "d", "dtype": "u32", "shape": [1]}],
"parameters": [{"pointer": "d"}], "outputs": [{"buffer": "d", "print": 1}]})";
  SimulateOptions options;
  options.schedules = 6;
  std::string notes;
  options.emulator.note = [&](const std::string& text) { notes += text; };
  auto told = [&](const std::string& waivers) {
    notes.clear();
    const Simulation s = run_ptx(ptx, changed(json, "\"grid\"", waivers + "\"grid\""), options);
    CHECK(s.finished);
    CHECK(s.schedules == 6);
    std::set<std::string> all;
    for (const SimulatedFault& f : s.faults) {
      CHECK(f.report.find("kernel race(unsigned int*), CTA") != std::string::npos);
      CHECK(all.insert(fmt::format("{} {}", name(f.kind), f.ptx_line)).second);
    }
    return all;
  };
  CHECK(told("") == std::set<std::string>{"race 6", "race 8", "uninitialised shared memory 7"});
  CHECK(told(R"("waivers": [{"kind": "race", "line": 6}, {"kind": "race", "line": 8}], )") ==
        std::set<std::string>{"uninitialised shared memory 7"});
  CHECK(notes.empty());
  CHECK(told(R"("waivers": [{"kind": "race", "line": 7}], )").size() == 3);
  CHECK(notes == "l.json: waivers[0]: it waives nothing that was found in line 7");
  CHECK_ERROR(
      told(R"("waivers": [{"kind": "rice", "line": 7}], )"),
      "l.json: waivers[0].kind: 'rice' is not a kind of finding; the kinds are \"race\", \"missing fence");
}

TEST_CASE("a fault after which a kernel cannot go on ends the run, waived or not") {
  const std::string ptx = R"(.visible .entry k() .reqntid 64 {
.shared .align 4 .b8 s[16]; .reg .b32 %r; mov.u32 %r, %tid.x;
st.shared.u32 [s], %r;
trap;
}
)";
  SimulateOptions options;
  options.schedules = 3;
  const Simulation s = run_ptx(ptx, R"({"grid": 1, "waivers": [{"kind": "trap", "line": 7}]})", options);
  CHECK_FALSE(s.finished);
  REQUIRE(!s.faults.empty());
  CHECK(s.faults.back().kind == runtime::Fault::trap);
  CHECK(s.faults.back().report.find("A waiver names this, but the kernel cannot continue") !=
        std::string::npos);
}

TEST_CASE("what lint says of an .aligned instruction that lanes run apart is a note before the run") {
  const std::string ptx = R"(.visible .entry k() .reqntid 32 {
.reg .b32 %r; .reg .pred %p; mov.u32 %r, %laneid; setp.lt.u32 %p, %r, 7;
{}bra E;
barrier.sync.aligned 0;
E: ret;
}
)";
  SimulateOptions options;
  std::string notes;
  options.emulator.note = [&](const std::string& text) { notes += text; };
  run_ptx(changed(ptx, "{}", "@%p "), R"({"grid": 1})", options);
  CHECK(notes.find("ptxb lint finds in it, at line 7:1: divergent-aligned") != std::string::npos);
  notes.clear();
  run_ptx(changed(ptx, "{}", ""), R"({"grid": 1})", options);
  CHECK(notes.empty());
}

TEST_CASE("a folder of Triton's cache says threads, shared memory and scratch memory") {
  Folder folder;
  auto write = [&](const char* name, const std::string& text) { std::ofstream(folder.path / name) << text; };
  CHECK_ERROR(triton_kernel(folder.path), "it is not a folder of Triton's cache: it has no .ptx file");
  write("k.ptx", "");
  write(
      "k.json",
      R"({"num_warps": 8, "num_ctas": 2, "shared": 4096, "global_scratch_size": 64, "profile_scratch_size": 0})");
  const TritonKernel k = triton_kernel(folder.path);
  CHECK(k.ptx == folder.path / "k.ptx");
  CHECK(k.signature.threads == 256);
  CHECK(k.signature.cluster[0] == 2);
  CHECK(k.signature.dynamic_shared_bytes == 4096);
  CHECK(k.scratch == std::vector<uint64_t>{64, 0});
  // The kernel writes beyond the first 64 bytes of its scratch memory, which has 128 bytes for two CTAs.
  SimulateOptions options;
  options.scratch = k.scratch;
  options.sidecar = [&](const std::string&) { return k.signature; };
  const std::string ptx = R"(.visible .entry k(.param .u64 p, .param .u64 scratch, .param .u64 profile) {
.reg .b64 %d<3>; ld.param.u64 %d0, [p]; ld.param.u64 %d1, [scratch]; ld.param.u64 %d2, [profile];
st.global.u32 [%d1+124], 1; st.global.u64 [%d0], %d2;
ret;
}
)";
  const Simulation s =
      run_ptx(ptx, R"({"grid": 2, "buffers": [{"name": "d", "dtype": "u64", "shape": [1], "init": 7}],
"parameters": [{"pointer": "d"}], "outputs": [{"buffer": "d", "equals": 0}]})",
              options);
  CHECK(s.faults.empty());
  CHECK(s.right());
  write("other.ptx", "");
  CHECK_ERROR(triton_kernel(folder.path), "it has several .ptx files; name one of them");
}

}  // namespace ptxbuilder::test::simulate_test
