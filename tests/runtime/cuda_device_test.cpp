// Tests the CUDA device without a GPU: with a missing driver, a broken driver, and a mock that gives
// configured answers.
#include "runtime/cuda_device.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <elf.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "driver_linker.h"
#include "mock_libcuda.h"
#include "runtime/buffer.h"
#include "runtime/cubin_check.h"
#include "runtime/loaded_kernel.h"
#include "runtime/open_device.h"
#include "tests/kit/error_kit.h"

namespace ptxbuilder::test::cuda_device_test {
using namespace runtime;
using cu::Status;
using std::chrono::milliseconds;

namespace {

constexpr const char* kPtx = ".version 8.0\n.target sm_90a\n.address_size 64\n";

MockDriver& fresh_mock() {
  static void* library = dlopen(PTXBUILDER_MOCK_LIBCUDA, RTLD_NOW);
  REQUIRE(library);
  auto* mock = reinterpret_cast<MockDriver* (*)()>(dlsym(library, "mock_driver"))();
  *mock = MockDriver{};
  return *mock;
}

std::unique_ptr<Device> open(const std::string& target = "sm_90a") {
  return open_cuda_device(target, PTXBUILDER_MOCK_LIBCUDA);
}

template <class Action>
std::optional<Error::Kind> kind_of(Action&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.kind();
  }
  return std::nullopt;
}

Signature signature(uint32_t cluster = 1) {
  Signature s;
  s.kernel = "copy";
  s.threads = 128;
  s.cluster = {cluster, 1, 1};
  s.dynamic_shared_bytes = 200 * 1024;
  s.parameters = {{.name = "in", .kind = Parameter::Kind::pointer, .dtype = DType::f32, .tensor_map = {}},
                  {.name = "n", .kind = Parameter::Kind::scalar, .dtype = DType::u32, .tensor_map = {}}};
  return s;
}

Launch launch_of(const Signature& s) {
  return {.grid = {s.cluster[0], 2, 3},
          .block = {s.threads, 1, 1},
          .cluster = {s.cluster[0], 1, 1},
          .dynamic_shared_bytes = s.dynamic_shared_bytes};
}

void launch(Device& device, Program& program, const Launch& how) {
  const uint64_t in = 0x1000;
  const uint32_t n = 5;
  const void* parameters[] = {&in, &n};
  device.launch(program, how, parameters);
}

// Returns the smallest cubin that check_cubin accepts: one kernel's section and the table of names.
std::string cubin_of(const std::string& kernel) {
  const std::string names = std::string("\0.shstrtab\0.text.", 17) + kernel + std::string(1, '\0');
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  header.e_shstrndx = 1;
  header.e_shoff = sizeof header;
  const uint64_t names_at = sizeof header + 3 * sizeof(Elf64_Shdr);
  Elf64_Shdr sections[3] = {};
  sections[1].sh_name = 1;
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = names_at;
  sections[1].sh_size = names.size();
  sections[2].sh_name = 11;
  sections[2].sh_type = SHT_PROGBITS;
  sections[2].sh_offset = names_at + names.size();
  sections[2].sh_size = 16;
  std::string image(reinterpret_cast<const char*>(&header), sizeof header);
  image.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return image + names + std::string(16, 'x');
}

}  // namespace

TEST_CASE("without a driver, the library and the reason are named") {
  CHECK_ERROR(
      open_cuda_device("sm_90a", "libno_such_cuda.so.1"),
      "libno_such_cuda.so.1 not found: no NVIDIA driver on this machine (libno_such_cuda.so.1: cannot open");
  CHECK_ERROR(open_cuda_device("sm_90a", "libm.so.6"),
              "libm.so.6 has no cuInit: the driver is older than CUDA 12.0, update it");
  if (!dlopen("libcuda.so.1", RTLD_NOW))
    CHECK_ERROR(open_device("cuda"),
                "device 'cuda': libcuda.so.1 not found: no NVIDIA driver on this machine");
  CHECK_ERROR(open_device("gpu"),
              "the device is 'gpu', but must be cuda, cuda:0, cuda:1, ..., emulator or auto");
}

TEST_CASE("a GPU that can run the code is chosen, or the error says why not") {
  MockDriver& mock = fresh_mock();
  SUBCASE("a Hopper") {
    auto device = open();
    CHECK(device->properties().name == "Mock H100");
    CHECK(device->properties().compute_capability == 90);
    CHECK(device->properties().multiprocessors == 132);
    CHECK(device->properties().shared_bytes_per_cta == 232448);
    CHECK(device->properties().driver == "CUDA 12.4");
  }
  SUBCASE("no device") {
    mock.init = Status::no_device;
    CHECK_ERROR(open(),
                "cuInit failed: CUDA_ERROR_NO_DEVICE (100): text of the mock; the driver is installed but "
                "sees no GPU");
  }
  SUBCASE("none listed") {
    mock.device_count = 0;
    CHECK_ERROR(open(), "no GPU runs sm_90a code: the driver lists none");
  }
  SUBCASE("others") {
    mock.device_count = 2;
    mock.major = 8;
    mock.minor = 9;
    CHECK_ERROR(open(),
                "no GPU runs sm_90a code: GPU 0 has compute capability 8.9, GPU 1 has compute capability "
                "8.9; kernels for "
                "Hopper run on an H100, H200 or GH200, and on the emulator anywhere");
    CHECK(open("sm_80") != nullptr);
  }
}

TEST_CASE("everything that is opened is closed") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  {
    auto device = open();
    auto program = device->load(kPtx, signature());
    Buffer buffer = Buffer::of(*device, std::vector<int>{1, 2, 3});
    launch(*device, *program, launch_of(signature()));
    device->time(1, 2, [] {});
    CHECK(buffer.copy_out<int>() == std::vector<int>{1, 2, 3});
    CHECK(mock.streams == 1);
    CHECK(mock.libraries == 1);
    CHECK(mock.allocations == 1);
    CHECK(mock.context_retains == 1);
  }
  CHECK(mock.streams == 0);
  CHECK(mock.libraries == 1);  // it stays until the end of the process
  CHECK(mock.allocations == 0);
  CHECK(mock.events == 0);
  CHECK(mock.context_releases == 1);
}

TEST_CASE("a launch hands the driver its shape, attributes and parameters") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  const Signature s = signature(2);
  auto program = device->load(kPtx, s);
  CHECK(mock.max_dynamic_shared == 200 * 1024);
  CHECK(mock.non_portable == 0);
  Launch how = launch_of(s);
  how.programmatic_dependent_launch = true;
  how.cooperative = true;
  launch(*device, *program, how);
  CHECK(mock.parameters == std::vector<uint64_t>{0x1000, 5});
  CHECK(mock.config.grid_x == 2);
  CHECK(mock.config.grid_y == 2);
  CHECK(mock.config.grid_z == 3);
  CHECK(mock.config.block_x == 128);
  CHECK(mock.config.shared_bytes == 200 * 1024);
  REQUIRE(mock.attributes.size() == 3);
  CHECK(mock.attributes[0].id == cu::LaunchAttributeId::cluster_dimension);
  CHECK(mock.attributes[0].value.cluster_dim.x == 2);
  CHECK(mock.attributes[1].id == cu::LaunchAttributeId::programmatic_stream_serialization);
  CHECK(mock.attributes[1].value.programmatic_stream_serialization_allowed == 1);
  CHECK(mock.attributes[2].id == cu::LaunchAttributeId::cooperative);
  CHECK(mock.attributes[2].value.cooperative == 1);

  auto plain = device->load(kPtx, signature());
  launch(*device, *plain, launch_of(signature()));
  CHECK(mock.attributes.empty());

  how.grid.x = 3;
  CHECK_ERROR(launch(*device, *program, how), "grid 3 x 2 x 3 is not a multiple of cluster 2 x 1 x 1");
  CHECK_ERROR(device->launch(*program, launch_of(s), {}),
              "launch of 'copy': 0 parameters were given, but the kernel takes 2");
  mock.launch = Status::launch_out_of_resources;
  CHECK_ERROR(launch(*device, *program, launch_of(s)),
              "cuLaunchKernelEx of kernel 'copy' failed: CUDA_ERROR_OF_MOCK (701)");
}

TEST_CASE("a launch goes to the caller's stream, and asks the driver for nothing else") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  auto program = device->load(kPtx, signature());
  Launch how = launch_of(signature());
  launch(*device, *program, how);
  CHECK(mock.config.stream == device->stream());
  how.stream = reinterpret_cast<void*>(0x77);
  launch(*device, *program, how);
  CHECK(mock.config.stream == reinterpret_cast<cu::Stream>(0x77));
  how.stream = nullptr;  // CUDA's default stream
  launch(*device, *program, how);
  CHECK(mock.config.stream == nullptr);
  auto own = device->create_stream();
  CHECK(mock.streams == 2);
  how.stream = *own;
  launch(*device, *program, how);
  CHECK(mock.config.stream == static_cast<cu::Stream>(Stream(*own).handle()));

  // During a capture by the caller, a query, a wait or an allocation would be an error.
  mock.capturing = true;
  launch(*device, *program, how);
  mock.capturing = false;
  own.reset();
  CHECK(mock.streams == 1);
}

TEST_CASE("the context that a thread had is its context again") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  mock.device_count = 3;
  auto device = open_cuda_device("sm_90a", PTXBUILDER_MOCK_LIBCUDA, 1);
  auto* driver = new cu::Driver(PTXBUILDER_MOCK_LIBCUDA);
  const auto none = cu::Context(nullptr), ours = reinterpret_cast<cu::Context>(2),
             same_gpu = reinterpret_cast<cu::Context>(101), other_gpu = reinterpret_cast<cu::Context>(102);
  std::unique_ptr<Program> program;
  auto in = [&](cu::Context before, const std::function<void()>& call) {
    driver->ctx_set_current(before);
    call();
    cu::Context after = nullptr;
    driver->ctx_get_current(&after);
    CHECK(after == before);
  };
  for (cu::Context before : {none, ours, same_gpu, other_gpu}) {
    CAPTURE(before);
    in(before, [&] { program = device->load(kPtx, signature()); });
    in(before, [&] {
      Buffer buffer = Buffer::of(*device, std::vector<int>{1});
      buffer.fill(1);
      buffer.copy_out<int>();
    });
    in(before, [&] { device->synchronize(); });
    in(before, [&] { device->create_event()->record(); });
    in(before, [&] { launch(*device, *program, launch_of(signature())); });
    // Any context of the same GPU is suitable for a launch, because the caller may mean its default stream.
    CHECK(mock.launch_context == (before == same_gpu ? same_gpu : ours));
    mock.launch = Status::launch_out_of_resources;
    in(before, [&] { CHECK_THROWS(launch(*device, *program, launch_of(signature()))); });
    mock.launch = Status::success;
  }
  device->make_current();
  cu::Context now = nullptr;
  driver->ctx_get_current(&now);
  CHECK(now == ours);
  driver->ctx_set_current(nullptr);
  delete driver;
}

TEST_CASE("a GPU is chosen by its number") {
  MockDriver& mock = fresh_mock();
  auto with = [](int ordinal) { return open_cuda_device("sm_90a", PTXBUILDER_MOCK_LIBCUDA, ordinal); };
  mock.device_count = 2;
  CHECK(with(1) != nullptr);
  CHECK_ERROR(with(2), "there is no GPU 2: the driver lists GPUs 0 to 1");
  mock.device_count = 1;
  CHECK_ERROR(with(1), "there is no GPU 1: the driver lists GPU 0 alone");
  mock.major = 8;
  CHECK_ERROR(with(0), "no GPU runs sm_90a code: GPU 0 has compute capability 8.0");
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda1", "cuda: 1"})
    CHECK_ERROR(open_device(name),
                std::string("the device is '") + name + "', but must be cuda, cuda:0, cuda:1");
  if (!dlopen("libcuda.so.1", RTLD_NOW)) CHECK_ERROR(open_device("cuda:1"), "device 'cuda:1': libcuda.so.1");
}

TEST_CASE("streams, events and graphs") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  auto program = device->load(kPtx, signature());
  auto first = device->create_stream(), second = device->create_stream();
  {
    auto event = device->create_event();
    event->record(*first);
    event->hold(*second);
    mock.not_ready_answers = 1;
    CHECK_FALSE(event->is_done());
    CHECK(event->is_done());
    mock.not_ready_answers = -1;
    CHECK_THROWS_AS(event->wait(milliseconds(5)), TimeoutError);
  }
  CHECK(mock.events == 0);
  CHECK_ERROR(first = device->create_stream(), "the device cannot be used again");
  mock.not_ready_answers = 0;
  first.reset(), second.reset(), program.reset();

  device = open();
  program = device->load(kPtx, signature());
  Launch how = launch_of(signature());
  CHECK_FALSE(device->is_capturing({}));
  auto graph = device->capture([&](Stream stream) {
    CHECK(device->is_capturing(stream));
    how.stream = stream;
    launch(*device, *program, how);
  });
  CHECK_FALSE(mock.capturing);
  CHECK(mock.graphs == 1);
  auto stream = device->create_stream();
  graph->launch();
  graph->launch(*stream);
  CHECK(mock.graph_launches == std::vector<cu::Stream>{static_cast<cu::Stream>(device->stream()),
                                                       static_cast<cu::Stream>(Stream(*stream).handle())});
  CHECK_THROWS_WITH(device->capture([](Stream) { throw std::runtime_error("their own"); }), "their own");
  CHECK_FALSE(mock.capturing);
  graph.reset();
  CHECK(mock.graphs == 0);
}

// PyTorch's captures are not relaxed. A first call in one of them opens the device, loads its kernel, and
// creates its own streams and small buffers.
TEST_CASE("a capture of the caller's goes on while a device is opened and a kernel is loaded") {
  MockDriver& mock = fresh_mock();
  mock.capturing = true, mock.capture_mode = cu::CaptureMode::global;
  mock.parameter_sizes = {8, 4};
  auto device = open();
  auto program = device->load(kPtx, signature());
  auto stream = device->create_stream();
  CHECK(mock.libraries == 1);
  (void)Buffer::of(*device, std::vector<uint32_t>{7}).copy_out<uint32_t>();
  CHECK(mock.allocations == 0);
  mock.load = cu::Status::invalid_value;
  CHECK_THROWS_AS(device->load(kPtx, signature()), Error);
  stream.reset(), program.reset(), device.reset();
  CHECK(mock.ended_captures == 0);
  CHECK(mock.relaxed_threads == 0);  // the thread's own mode is restored
}

TEST_CASE("a launch asks the driver for the current context once, however many maps it encodes") {
  MockDriver& mock = fresh_mock();
  Signature s = signature();
  s.parameters = {3,
                  {.name = "",
                   .kind = Parameter::Kind::tensor_map,
                   .dtype = DType::f32,
                   .tensor_map = {.dtype = DType::f32, .box = {32}, .element_strides = {1}}}};
  for (int i = 0; i < 3; ++i) s.parameters[static_cast<size_t>(i)].name = std::string(1, "abc"[i]);
  mock.parameter_sizes = {128, 128, 128};
  auto device = open();
  LoadedKernel kernel(*device, kPtx, s);
  Buffer memory(*device, 128);
  const Argument t = tensor(memory, DType::f32, {32});
  auto launch = [&] {
    mock.context_questions = mock.context_changes = mock.encodes = 0;
    kernel.launch({.grid = {1}}, {t, t, t});
    CHECK(mock.encodes == 3);
    CHECK(mock.context_questions == 1);
  };
  launch();
  CHECK(mock.context_changes == 2);  // one change to the context, and one back
  std::thread([&] {
    device->make_current();
    launch();
    CHECK(mock.context_changes == 0);
  }).join();
}

TEST_CASE("sixteen threads launch one kernel on the driver, each with its own arguments") {
  MockDriver& mock = fresh_mock();
  Signature s = signature();
  s.parameters[0] = {.name = "t",
                     .kind = Parameter::Kind::tensor_map,
                     .dtype = DType::f32,
                     .tensor_map = {.dtype = DType::f32, .box = {32}, .element_strides = {1}}};
  mock.parameter_sizes = {128, 4};
  auto device = open();
  LoadedKernel kernel(*device, kPtx, s);
  Buffer memory(*device, 4096);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 100; ++round)
        kernel.launch({.grid = {1}, .stream = reinterpret_cast<void*>(uintptr_t{i} + 16)},
                      {tensor(memory.part(128 * i, 128), DType::f32, {32}), scalar(i)});
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(mock.launches == 1600);
  CHECK(mock.mixed_launches == 0);

  // The threads now share a prepared launch. They also share its last tensor map if the addresses are equal.
  const std::vector<Argument> first = {tensor(memory.part(0, 128), DType::f32, {32}), scalar(0u)};
  const PreparedLaunch prepared = kernel.prepare({.grid = {1}}, first);
  threads.clear();
  for (uint32_t i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      for (uint32_t round = 0; round < 100; ++round) {
        const uint32_t which = round % 2 ? i : 3;
        prepared({{memory.address() + 128 * which, which}}, reinterpret_cast<void*>(uintptr_t{which} + 16));
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(mock.launches == 3200);
  CHECK(mock.mixed_launches == 0);
}

TEST_CASE("a fork of a process that used the driver gets an error that says so") {
  MockDriver& mock = fresh_mock();
  auto device = open();
  mock.alloc = Status::not_initialized;
  CHECK_ERROR(device->allocate(16),
              "this process is a fork of one that used CUDA, which CUDA does not allow: fork first");
}

TEST_CASE("what the GPU cannot hold is refused when the kernel is loaded") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  SUBCASE("cluster") {
    CHECK_ERROR(device->load(kPtx, signature(16)),
                "kernel 'copy' has clusters of 16 x 1 x 1 = 16 CTAs, but with 128 threads and 204800 B of "
                "dynamic shared memory, this GPU can place at most 8");
    CHECK(mock.non_portable == 1);
    mock.max_cluster = 16;
    CHECK(device->load(kPtx, signature(16)) != nullptr);
    mock.max_cluster = 4;
    CHECK_ERROR(device->load(kPtx, signature(8)), "can place at most 4");
    CHECK(device->load(kPtx, signature(4)) != nullptr);
  }
  SUBCASE("threads") {
    mock.max_threads = 96;
    CHECK_ERROR(device->load(kPtx, signature()),
                "kernel 'copy' has 128 threads, but its registers and .maxntid allow 96");
    mock.max_threads = 128;
    CHECK(device->load(kPtx, signature()) != nullptr);
  }
  SUBCASE("shared memory") {
    mock.static_shared = 232448 - 200 * 1024 + 1;
    CHECK_ERROR(device->load(kPtx, signature()),
                "kernel 'copy' uses 27649 B of static and 204800 B of dynamic shared memory, 1 B over this "
                "GPU's 232448 B per CTA");
    mock.static_shared -= 1;
    CHECK(device->load(kPtx, signature()) != nullptr);
  }
  SUBCASE("another architecture") {
    Signature s = signature();
    s.target = "sm_100a";
    CHECK_ERROR(device->load(kPtx, s),
                "kernel 'copy' is compiled for sm_100a, but this GPU has compute capability 90");
  }
}

TEST_CASE("an image and a sidecar that do not belong together are refused") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  CHECK(device->load(kPtx, signature()) != nullptr);
  mock.parameter_sizes = {8};
  CHECK_ERROR(device->load(kPtx, signature()),
              "do not belong together: the image takes 1 parameters, but the sidecar has 2");
  mock.parameter_sizes = {8, 4, 4};
  CHECK_ERROR(device->load(kPtx, signature()), "the image takes more than the sidecar's 2 parameters");
  mock.parameter_sizes = {8, 8};
  CHECK_ERROR(device->load(kPtx, signature()), "parameter 1 'n' is 8 B in the image, but 4 B in the sidecar");
  mock.parameter_sizes = {8, 4};
  mock.required_cluster[0] = 2, mock.required_cluster[1] = 1, mock.required_cluster[2] = 1;
  CHECK_ERROR(device->load(kPtx, signature()),
              "the cluster is 2 x 1 x 1 in the image, but 1 x 1 x 1 in the sidecar");
  CHECK(device->load(kPtx, signature(2)) != nullptr);
  mock.get_function = Status::not_found;
  CHECK_ERROR(device->load(kPtx, signature(2)), "the image has no kernel 'copy'");
}

TEST_CASE("refused images come with the driver's log") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  mock.load = Status::invalid_ptx;
  mock.jit_errors = "ptxas application ptx input, line 7; fatal: Parsing error near 'ad'";
  CHECK_ERROR(device->load(kPtx, signature()),
              "the driver rejected the PTX of kernel 'copy': CUDA_ERROR_OF_MOCK (218)");
  CHECK_ERROR(device->load(kPtx, signature()), "line 7; fatal: Parsing error near 'ad'");
  CHECK(kind_of([&] { (void)device->load(kPtx, signature()); }) == Error::Kind::compile);
  CHECK_ERROR(assemble_with_driver(kPtx, "sm_90a", PTXBUILDER_MOCK_LIBCUDA),
              "line 7; fatal: Parsing error near 'ad'");
  CHECK_ERROR(device->load("neither", signature()),
              "the image of kernel 'copy', 7 B, is neither a cubin nor PTX text");
  mock.load = Status::success;
  CHECK(assemble_with_driver(kPtx, "sm_90a", PTXBUILDER_MOCK_LIBCUDA).cubin == "cubin of the mock");
}

TEST_CASE("corrupt cubins are refused before the driver reads them") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  const std::string good = cubin_of("copy");
  CHECK(device->load(good, signature()) != nullptr);
  CHECK_ERROR(device->load(cubin_of("other"), signature()),
              "the cubin has no kernel 'copy' (it has: other): the sidecar belongs to another cubin");
  for (size_t length = 4; length < good.size(); ++length) {
    CAPTURE(length);
    CHECK_ERROR(check_cubin(good.substr(0, length), "copy"), "corrupt cubin: ");
  }
  auto with = [&](size_t at, uint8_t byte) {
    std::string image = good;
    image[at] = static_cast<char>(byte);
    return image;
  };
  CHECK_ERROR(check_cubin(with(EI_CLASS, ELFCLASS32), "copy"), "it is an ELF file of class 1");
  CHECK_ERROR(check_cubin(with(offsetof(Elf64_Ehdr, e_machine), 62), "copy"),
              "for machine 62, not for CUDA (190)");
  CHECK_ERROR(check_cubin(with(offsetof(Elf64_Ehdr, e_shstrndx), 200), "copy"), "no section of names");
  CHECK_ERROR(check_cubin(with(offsetof(Elf64_Ehdr, e_shentsize), 1), "copy"), "no table of sections");
  CHECK_ERROR(check_cubin(with(offsetof(Elf64_Ehdr, e_shoff) + 7, 0xff), "copy"),
              "its table of sections ends");
  CHECK_ERROR(check_cubin(with(offsetof(Elf64_Ehdr, e_phoff) + 7, 0xff), "copy"),
              "its table of segments ends");
}

TEST_CASE("synchronize waits, also makes the driver print, and names what failed") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  auto device = open();
  auto program = device->load(kPtx, signature());
  launch(*device, *program, launch_of(signature()));
  SUBCASE("done after a while") {
    mock.not_ready_answers = 20;
    const int before = mock.stream_synchronizes;
    device->synchronize(milliseconds(5000));
    CHECK(mock.not_ready_answers == 0);
    CHECK(mock.stream_synchronizes == before + 1);
  }
  SUBCASE("a kernel that failed") {
    mock.stream = Status::illegal_address;
    CHECK_ERROR(
        device->synchronize(),
        "kernel 'copy' or one queued before it failed, as waiting for the stream reported: "
        "CUDA_ERROR_ILLEGAL_ADDRESS (700): text of the mock; a kernel touched memory outside its buffers");
    CHECK_ERROR(device->allocate(16), "the device cannot be used again after: kernel 'copy'");
    CHECK(kind_of([&] { (void)device->allocate(16); }) == Error::Kind::device);
  }
  SUBCASE("a copy that reports it") {
    mock.launch = Status::illegal_address;
    CHECK_ERROR(launch(*device, *program, launch_of(signature())),
                "kernel 'copy' or one queued before it failed");
    CHECK(kind_of([&] { device->synchronize(); }) == Error::Kind::device);
    CHECK_ERROR(device->synchronize(), "the device cannot be used again");
  }
}

TEST_CASE("a kernel that never ends costs the limit, and nothing waits for it again") {
  MockDriver& mock = fresh_mock();
  mock.parameter_sizes = {8, 4};
  using Clock = std::chrono::steady_clock;
  Clock::time_point start;
  {
    auto device = open();
    Buffer buffer(*device, 64);
    auto program = device->load(kPtx, signature());
    launch(*device, *program, launch_of(signature()));
    mock.not_ready_answers = -1;
    start = Clock::now();
    CHECK_THROWS_AS(device->synchronize(milliseconds(50)), TimeoutError);
    const auto waited = Clock::now() - start;
    CHECK(waited >= milliseconds(50));
    CHECK(waited < milliseconds(2000));
    CHECK_ERROR(device->synchronize(), "kernel 'copy' had not finished after 50 ms");
    CHECK_ERROR(launch(*device, *program, launch_of(signature())), "the device cannot be used again");
  }
  CHECK(Clock::now() - start < milliseconds(4000));  // the destructors' own limit is 30 s
  CHECK(mock.allocations == 1);                      // it remains allocated until the end of the process
  CHECK(mock.streams == 1);
  CHECK(mock.context_releases == 0);
}

TEST_CASE("time gives one value for each counted call") {
  MockDriver& mock = fresh_mock();
  auto device = open();
  int calls = 0;
  CHECK(device->time(3, 5, [&] { ++calls; }) == std::vector<double>(5, 250.0));
  CHECK(calls == 8);
  CHECK(mock.records == 10);
  CHECK_ERROR(device->time(0, 0, [] {}),
              "time: 0 warm-up calls and 0 calls were requested, but there must be at least 0 and 1");
  CHECK(device->time(0, 1, [] {}).size() == 1);
}

TEST_CASE("memory") {
  MockDriver& mock = fresh_mock();
  auto device = open();
  CHECK_ERROR(device->allocate(0), "allocate: 0 B");
  mock.alloc = Status::out_of_memory;
  CHECK_ERROR(device->allocate(4096),
              "allocate: 4096 B of device memory were requested, but only 600 B of 1000 B are free");
  CHECK(kind_of([&] { (void)device->allocate(4096); }) == Error::Kind::out_of_memory);
  CHECK(kind_of([&] { (void)device->allocate(0); }) == Error::Kind::refused);
  CHECK(kind_of([] { (void)open_cuda_device("sm_90a", "/nowhere/libcuda.so"); }) == Error::Kind::device);
  mock.alloc = Status::success;
  Buffer buffer(*device, 4);
  buffer.fill(7);
  CHECK(buffer.copy_out<uint8_t>() == std::vector<uint8_t>(4, 7));
}

TEST_CASE("tensor maps are checked before the driver sees them") {
  MockDriver& mock = fresh_mock();
  auto device = open();
  TensorMapArguments a;
  a.recipe.dtype = DType::f32;
  a.recipe.box = {32};
  a.recipe.element_strides = {1};
  a.address = 0x1000;
  a.shape = {64};
  CHECK(device->encode(a).bytes[127] == std::byte{0xff});
  CHECK(mock.box == std::vector<uint32_t>{32});
  a.recipe.box = {31};
  CHECK_ERROR(device->encode(a), "tensor map: box[0] = 31 x f32 = 124 B is not a multiple of 16 B");
  CHECK(mock.encodes == 1);
  a.recipe.box = {32};
  TensorMapArguments pixels = a;
  pixels.recipe.box = {32, 1, 1, 1};
  pixels.recipe.element_strides = {1, 1, 1, 1};
  pixels.recipe.pixels = 64;
  pixels.shape = {64, 9, 8, 2};
  pixels.strides = {256, 2304, 18432};
  pixels.im2col = {{-3, -1}, {-2, -1}, {2, 1}};
  CHECK(device->encode(pixels).bytes[127] == std::byte{0xff});
  // The box lists the channels, the pixels, the corners, and the step along the dimension after the channels.
  CHECK(mock.box == std::vector<uint32_t>{32, 64, static_cast<uint32_t>(-3), static_cast<uint32_t>(-2), 2});
  pixels.im2col->lower[0] = -129;
  CHECK_ERROR(device->encode(pixels), "tensor map: a corner is -129, but must be -128 to 127 for rank 4");
  mock.encode = Status::invalid_value;
  CHECK_ERROR(
      device->encode(a),
      "cuTensorMapEncodeTiled failed: CUDA_ERROR_OF_MOCK (1): text of the mock; the map complies with");
  // A kernel's failure must not be blamed on the map.
  mock.encode = Status::illegal_address;
  CHECK_ERROR(device->encode(a),
              "one queued before it failed, as cuTensorMapEncodeTiled reported: CUDA_ERROR");
  CHECK_ERROR(device->encode(a), "as cuTensorMapEncodeTiled reported");
}

}  // namespace ptxbuilder::test::cuda_device_test
