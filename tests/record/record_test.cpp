// Tests recording: programs run under `ptxb record` on the emulator's libcuda, and `ptxb sim` runs the
// recordings with the same results. Also tests the recorder itself on the test's own memory.
#include <sys/wait.h>

#include <cstring>
#include <fstream>

#include "command_kit.h"
#include "error_kit.h"
#include "folder_kit.h"
#include "ptxbuilder/file_text.h"
#include "runtime/record/recorder.h"

namespace ptxbuilder::test::record_test {
namespace {

using namespace runtime;
using record::Image;
using record::Recorder;

// A folder with the emulator's driver, in which programs are compiled and recorded.
struct Workshop {
  Workshop() { std::filesystem::create_symlink(PTXBUILDER_EMULATOR_LIBCUDA, folder.path("libcuda.so.1")); }

  void shell(const std::string& words) const {
    REQUIRE(std::system(("cd " + folder.path("") + " && " + words).c_str()) == 0);
  }
  Ran recorded(const std::string& options, const std::string& program) const {
    return run(fmt::format("ptxb record -o {} {} -- {}", folder.path("rec"), options, folder.path(program)),
               "LD_LIBRARY_PATH=" + folder.path(""));
  }
  Ran replayed(const std::string& name) const {
    const std::string at = folder.path("rec/" + name);
    return run(fmt::format("ptxb sim {}/kernel.ptx --launch {}/launch.json --seeds 3", at, at));
  }
  std::string launch(const std::string& name) const {
    return file_text(folder.path("rec/" + name + "/launch.json"));
  }

  Folder folder;
};

const std::string cc = PTXBUILDER_CC " -std=gnu11 -w ", here = PTXBUILDER_TEST_DIR "/";

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("no '", part, "' in: ", text);
  return found;
}

TEST_CASE(
    "a program that finds its driver by cuGetProcAddress is recorded, with pointers in structs and in "
    "memory") {
  const Workshop w;
  w.shell(cc + here + "record/record_main.c -o program -ldl");
  const Ran ran = w.recorded("--kernel add", "program");
  CHECK(ran.code == 0);
  CHECK(contains(ran, "all are right"));
  CHECK(contains(ran, "ptxb record: 1 of 2 launches are in "));
  const std::string launch = w.launch("0-add");
  CHECK(has(launch, R"("entry": "add", "grid": [1, 1, 1], "block": [32, 1, 1], "dynamic_shared_bytes": 0)"));
  CHECK(has(
      launch,
      R"({"at": 0, "pointer": "m0", "offset": 0}, {"at": 8, "pointer": "m1", "offset": 512}], "bytes": 24})"));
  CHECK(has(launch, R"("init": {"struct": [{"at": 0, "pointer": "m2", "offset": 0},)"));
  const Ran again = w.replayed("0-add");
  CHECK(again.code == 0);
  CHECK(contains(again, "m1: all 1024 elements are right"));

  CHECK(contains(w.recorded("--kernel multiply", "program"),
                 "none of 2 launches was recorded; --kernel selects 'multiply'"));
  CHECK(contains(w.recorded("--max 1", "program"), "ptxb record: 1 of 2 launches are in "));
  const Ran none = w.recorded("", "no_such_program");
  CHECK(none.code == 1);
  CHECK(contains(none, "no_such_program cannot be run: No such file or directory"));
  CHECK(contains(run("ptxb record -- true"),
                 "the program has not made any calls of the CUDA driver that are recorded"));
}

TEST_CASE("launches of a graph are recorded each with the memory before and after it, and replay") {
  const Workshop w;
  w.shell(cc + here + "record/graph_main.c -o program -ldl");
  w.shell("LD_LIBRARY_PATH=. ./program > words");  // without a recorder
  const Ran ran = w.recorded("--kernel scale --max 8", "program");
  CHECK(ran.code == 0);
  CHECK(contains(ran, "all are right"));
  CHECK(contains(ran, "ptxb record: 8 of 12 launches are in "));
  const auto recorded = [&](int n, const char* when) {
    const std::string bytes = file_text(w.folder.path(fmt::format("rec/{}-scale/m0.{}", n, when)));
    uint32_t first = 0;
    std::memcpy(&first, bytes.data(), sizeof first);
    return first;
  };
  // The eighth launch is the second launch of the third graph. The ninth is not recorded.
  const uint32_t before[] = {0, 5, 22}, after[] = {5, 22, 75};
  for (int n = 0; n < 8; ++n) {
    CHECK(recorded(n, "before") == before[n % 3]);
    CHECK(recorded(n, "after") == after[n % 3]);
  }
  const Ran again = w.replayed("5-scale");
  CHECK(again.code == 0);
  CHECK(contains(again, "m0: all 128 elements are right"));
  const Ran last = w.recorded("--kernel scale --max 9", "program");
  CHECK(contains(last, "ptxb record: 9 of 12 launches are in "));
  CHECK(has(w.launch("16-scale"), R"("scalar": "u32", "value": 11})"));
}

TEST_CASE("a product by tensor maps is recorded, and replays") {
  const Workshop w;
  REQUIRE(run("ptxb export gemm --consumers 1 --bm 64 --bn 64 --ptx --name product -o " + w.folder.path(""))
              .code == 0);
  w.shell(cc + "-DWITH_SIZES -I. -I" + here + "export -c " + here + "export/product_main.c -o main.o && " +
          cc + "-c product.c && " + cc + "main.o product.o -o program -ldl -pthread");
  const Ran ran = w.recorded("", "program 7 96x64x72");
  CHECK(ran.code == 0);
  CHECK(contains(ran, "96x64x72 by"));
  REQUIRE(std::filesystem::exists(w.folder.path("rec")));
  const std::string name = std::filesystem::directory_iterator(w.folder.path("rec"))->path().filename();
  CHECK(has(w.launch(name), R"("dtype": "bf16", "shape": [72, 96], "strides": [144], "box": [64, 64])"));
  const Ran again = w.replayed(name);
  CHECK(again.code == 0);
  CHECK(contains(again, "elements are right"));
}

// ---- The recorder, on memory at chosen addresses ----

std::map<Address, std::vector<std::byte>> memory;

cu::Status copy_out(void* to, cu::DevicePtr from, size_t bytes) {
  const auto behind = memory.upper_bound(from);
  if (behind == memory.begin()) return cu::Status::invalid_value;
  const auto& [base, held] = *std::prev(behind);
  if (from - base + bytes > held.size()) return cu::Status::invalid_value;
  std::memcpy(to, held.data() + (from - base), bytes);
  return cu::Status::success;
}

record::Handle enumerated_module = nullptr;  // module of functions that were not looked up by name

record::DriverCalls own_driver() {
  return {.synchronize = [] { return cu::Status::success; },
          .copy_out = &copy_out,
          .is_capturing =
              [](cu::Stream stream, int* capturing) {
                *capturing = stream != nullptr;
                return cu::Status::success;
              },
          .module_global =
              [](cu::DevicePtr* address, size_t* bytes, record::Handle, const char* name) {
                if (std::string(name) != "table") return cu::Status::not_found;
                *address = 0x50000;
                *bytes = 8;
                return cu::Status::success;
              },
          .function_name =
              [](const char** name, record::Handle) {
                *name = "_Z4copyPfS_";
                return enumerated_module ? cu::Status::success : cu::Status::not_found;
              },
          .function_module =
              [](record::Handle* module, record::Handle) {
                *module = enumerated_module;
                return cu::Status::success;
              }};
}

constexpr const char* text =
    ".version 8.6\n.target sm_90a\n.address_size 64\n.global .align 4 .b8 table[8];\n.const .u32 unknown;\n"
    ".visible .entry _Z4copyPfS_(.param .u64 a, .param .u64 b, .param .align 64 .b8 map[128]) { ret; }\n";

// Records one launch of `image`, and returns the recorder's messages and its folder.
struct Trial {
  Folder folder;
  Recorder recorder;
  int module = 0, function = 0;

  explicit Trial(Image image, uint64_t bytes = 1 << 20, std::vector<std::filesystem::path> ptx = {})
      : recorder({.folder = folder.path("rec"), .bytes = bytes, .ptx = std::move(ptx)}, own_driver()) {
    recorder.loaded(&module, std::move(image), false);
    recorder.found(&module, &function, "_Z4copyPfS_");
  }
  bool launch(const std::vector<std::vector<std::byte>>& parameters, cu::Stream stream = nullptr) {
    std::vector<void*> list;
    for (const auto& p : parameters) list.push_back(const_cast<std::byte*>(p.data()));
    const auto launch =
        recorder.begin(&function, {{2, 1, 1}, {64, 1, 1}, {}, 0, false, stream}, list.data(), nullptr);
    if (!launch) return false;
    recorder.end(*launch);
    return true;
  }
  std::string json() const { return file_text(folder.path("rec/0-copy/launch.json")); }
};

std::vector<std::byte> bytes_of(Address address) {
  std::vector<std::byte> bytes(8);
  std::memcpy(bytes.data(), &address, 8);
  return bytes;
}

TEST_CASE("the recorder decodes tensor maps, keeps variables of the module, and cuts large allocations") {
  memory = {{0x10000, std::vector<std::byte>(4096)},
            {0x40000, std::vector<std::byte>(1 << 16)},
            {0x50000, std::vector<std::byte>(8, std::byte{7})}};
  Trial trial(Image::of(text), 8192);
  trial.recorder.allocated(0x10000, 4096);
  trial.recorder.allocated(0x40000, 1 << 16);
  std::vector<std::byte> map(128, std::byte{0xee});
  record::RecordedMap known;
  known.arguments.recipe = {
      .dtype = DType::bf16, .box = {64, 8}, .element_strides = {1, 1}, .swizzle = Swizzle::b128};
  known.arguments.address = 0x10000;
  known.arguments.shape = {64, 32};
  known.arguments.strides = {128};
  trial.recorder.encoded(map.data(), known);
  REQUIRE(trial.launch({bytes_of(0x10100), bytes_of(0x48010), map}));
  const std::string json = trial.json();
  CHECK(has(
      json,
      R"({"name": "table", "dtype": "u8", "shape": [8], "symbol": "table", "init": {"file": "table.before"}})"));
  CHECK(has(json, R"({"pointer": "m1", "offset": 256},)"));
  CHECK(has(json, R"({"pointer": "m2", "offset": 16},)"));
  CHECK(has(json, "// m2 is 8192 B of an allocation of 65536"));
  CHECK(has(
      json,
      R"({"tensor_map": "m1", "offset": 0, "dtype": "bf16", "shape": [64, 32], "strides": [128], "box": [64, 8], )"
      R"("element_strides": [1, 1], "swizzle": "128", "interleave": "none", "oob_fill": "zero"})"));
  CHECK(has(json, R"({"name": "m1", "dtype": "bf16", "shape": [2048], "init": {"file": "m1.before"}})"));
  CHECK(trial.recorder.summary().find("1 of 1 launches") != std::string::npos);
}

TEST_CASE("launches in a capture are not launches yet, and unknown kernels are reported") {
  Trial trial(Image::of(text));
  CHECK(!trial.launch({bytes_of(0), bytes_of(0), std::vector<std::byte>(128)},
                      reinterpret_cast<cu::Stream>(8)));
  int other = 0;
  CHECK(trial.recorder.begin(&other, {}, nullptr, nullptr) == nullptr);
  const std::byte packed[192] = {};
  enumerated_module = &trial.module;
  CHECK(trial.recorder.begin(&other, {}, nullptr, packed) != nullptr);
  enumerated_module = nullptr;
  CHECK(trial.recorder.summary().find("1 of 2 launches are in ") != std::string::npos);
}

TEST_CASE(
    "PTX is found in fatbins, next to a cubin, and in the input of a linker; else the error says what to "
    "do") {
  auto fatbin = [](const std::string& ptx, uint32_t architecture) {
    auto put = [](std::string& to, auto value) {
      to.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    std::string entry, all;
    put(entry, uint16_t{1}), put(entry, uint16_t{0x101}), put(entry, uint32_t{64}),
        put(entry, uint64_t{ptx.size()});
    put(entry, uint64_t{0}), put(entry, uint32_t{0}), put(entry, architecture);
    entry.resize(64);
    entry += ptx;
    put(all, uint32_t{0xba55ed50}), put(all, uint16_t{1}), put(all, uint16_t{16}),
        put(all, uint64_t{entry.size()});
    return all + entry;
  };
  const std::string whole = fatbin(text, 90);
  const record::PtxSources none({});
  CHECK(none.find(record::image_at(whole.data()), "_Z4copyPfS_") == text);
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void* data;
    const void* more = nullptr;
  } wrapper{.data = whole.data()};
  CHECK(none.find(record::image_at(&wrapper), "_Z4copyPfS_") == text);

  // An empty ELF file with CUDA's machine number stands for a cubin.
  std::string cubin(64, '\0');
  cubin.replace(0, 6,
                "\x7f"
                "ELF\x02\x01");
  cubin[18] = static_cast<char>(190);
  const Image image = record::image_at(cubin.data());
  CHECK(image.bytes == cubin);
  CHECK_ERROR(none.find(image, "k"),
              "the program has loaded a cubin of it, but no PTX. Compile it with PTX too");
  const Folder folder;
  std::filesystem::create_directory(folder.path("hash"));
  std::ofstream(folder.path("hash/k.cubin")) << cubin;
  std::ofstream(folder.path("hash/k.ptx")) << text;
  CHECK(record::PtxSources({folder.path("")}).find(image, "k") == text);
  record::PtxSources linked({});
  linked.linked(cubin, "of a linker");
  CHECK(linked.find(image, "k") == "of a linker");
  CHECK_ERROR(none.find(Image::of(text), "other"),
              "the images that the program has loaded do not contain its code");
}

}  // namespace
}  // namespace ptxbuilder::test::record_test
