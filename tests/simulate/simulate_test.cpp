// `ptxb sim` without its command line: what launch files say, what is wrong with the others, and what runs.
#include "kernels/simulate/simulate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "emulator_kit.h"
#include "error_kit.h"

namespace ptxbuilder::test::simulate_test {
using namespace command;

namespace {

// out[i] = in[i] + add, for the i-th of x by y threads; the bytes of the struct go to `also`.
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
       "launch.json: \"gird\" is no member; there are entry, grid"},
      {"\"grid\": 1, ", "", "launch.json: grid: it is missing, and there is no sidecar"},
      {"\"grid\": 1", "\"grid\": 0", "launch.json: grid: 0 is less than 1"},
      {"\"grid\": 1", "\"grid\": -1", "launch.json: grid: -1 is less than 1"},
      {"\"grid\": 1", "\"grid\": [1, 1.5]", "launch.json: grid[1]: expected a whole number, found 1.5"},
      {"[4, 2]", "[4, 2, 1, 1]", "launch.json: block: expected 1 to 3 items, found 4"},
      {"\"block\": [4, 2]", "\"block\": 1025", "launch.json: block: 1025 exceeds 1024"},
      {"\"s32\", \"shape\": [4", "\"int\", \"shape\": [4",
       "launch.json: buffers[0].dtype: 'int' is no element type; there are u8, s8, u16"},
      {"\"name\": \"b\"", "\"name\": \"a\"", "launch.json: buffers[1].name: a second buffer 'a'"},
      {"\"shape\": [8]", "\"shape\": []", "launch.json: buffers[1].shape: expected 1 to 8 items, found 0"},
      {"\"shape\": [8]", "\"shape\": [4294967296, 2]", "buffers[1].shape: more than 17179869184 bytes"},
      {"\"iota\"", "\"noise\"", "launch.json: buffers[0].init: expected \"zeros\", \"poison\", \"iota\""},
      {"\"iota\"", "[1, 2]", "launch.json: buffers[0].init: expected 8 items, found 2"},
      {"\"iota\"", "1.5", "launch.json: buffers[0].init: 1.5 is no s32"},
      {"\"iota\"", "{\"file\": \"nowhere.bin\"}", "buffers[0].init.file: nowhere.bin cannot be read"},
      {"\"iota\"", "\"iota\", \"seed\": 1", "buffers[0].seed: only \"init\": \"normal\" has a seed"},
      {"{\"pointer\": \"a\"}", "{\"pointer\": \"z\"}",
       "launch.json: parameters[0].pointer: there is no buffer 'z'; there are a, b, c"},
      {"{\"pointer\": \"a\"}", "{\"pointer\": \"a\", \"offset\": 33}", "parameters[0].offset: 33 exceeds 32"},
      {"{\"pointer\": \"a\"}", "{\"adress\": \"a\"}", "launch.json: parameters[0]: it is a \"scalar\""},
      {"\"value\": -3", "\"value\": 2147483648", "parameters[2].value: 2147483648 does not fit in s32"},
      {"\"value\": 4000000000", "\"value\": -1", "parameters[3].struct[1].value: -1 does not fit in u32"},
      {"{\"at\": 12,", "{\"at\": 13,", "parameters[3].struct[1]: 4 B at byte 13 of a struct of 16 B"},
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
      // What the PTX says otherwise.
      {"\"add\"", "\"sub\"", "launch.json: entry: 'sub' is not in the PTX, which has add, other"},
      {"\"entry\": \"add\", ", "", "launch.json: entry: the PTX has add, other; name one of them"},
      {"\"add\"", "\"other\"", "launch.json: parameters: 4 are given, 'other' takes 0"},
      {",\n               {\"struct\": [{\"at\": 0, \"pointer\": \"c\"}, {\"at\": 12, \"scalar\": \"u32\", "
       "\"value\": 4000000000}], \"bytes\": 16}",
       "", "launch.json: parameters: 3 are given, 'add' takes 4; the next is 'rest'"},
      {"\"scalar\": \"s32\"", "\"scalar\": \"s64\"",
       "launch.json: parameters[2]: it has 8 B, the parameter 'add' of the PTX has 4 B"},
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
  CHECK_ERROR(run(with("f32", "1e999")), "launch.json: line 5, column 79: no double holds 1e999");
  CHECK_ERROR(run(changed(good, "\"grid\"", "\"grid\": 1, \"grid\"")),
              "the member \"grid\" stands twice in one object");
}

TEST_CASE("JSON that nests deeply is refused where it does") {
  const std::string deep(200000, '['), objects = [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "{\"a\":";
    return text;
  }();
  CHECK_ERROR(run(deep), "launch.json: line 1, column 65: JSON nested deeper than 64");
  CHECK_ERROR(run(objects), "launch.json: line 1, column 321: JSON nested deeper than 64");
  CHECK_ERROR(run("{\"grid\":\n" + deep + std::string(200000, ']') + "}"),
              "launch.json: line 2, column 64: JSON nested deeper than 64");
  CHECK_ERROR(signature_from_json(deep, "k.json"), "k.json: line 1, column 65: JSON nested deeper than 64");
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
  const runtime::TensorMapArguments& map = file.parameters.at(0).map;
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
      {R"("box": [8, 8], "offset": 8)", "parameters[0].offset: the address 0x8 is not a multiple of 16 B"},
      {R"("box": [8, 8], "offset": 128)", "parameters[0]: the tensor takes 2048 B from byte 128 on"},
      {R"("box": [8, 8], "shape": [64, 17])", "parameters[0]: the tensor takes 2176 B from byte 0 on"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.map);
    CHECK_ERROR(launch_from_json(with_map(c.map), "l.json"), c.text);
  }
}

TEST_CASE("files are read and written beside the launch file") {
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
  CHECK(bytes("n.bin") == n);  // a seed of its own
  CHECK(bytes("m.bin") != m);  // the run's
  std::filesystem::resize_file(folder.path / "in.bin", 8);
  CHECK_ERROR(simulate_seed(1), "buffers[0].init.file");
  CHECK_ERROR(simulate_seed(1), "in.bin has 8 bytes, the buffer 12");
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
  // Each CTA writes its threads, its dynamic shared memory and its cluster's CTAs.
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
  CHECK_ERROR(ran(1), "l.json: parameters[1]: the rule of the grid takes a scalar here");
  signature.grid = std::nullopt;
  CHECK_ERROR(ran(1), "l.json: grid: it is missing, and there is no sidecar with a rule that would say it");
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
      simulate(
          ptx,
          launch_from_json(
              fmt::format(R"({{"grid": 1, "dynamic_shared_bytes": 128, "shared": [{}]}})", shared), "l.json"),
          {});
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

}  // namespace ptxbuilder::test::simulate_test
