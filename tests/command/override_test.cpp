// Tests `ptxb run KERNEL --ptx FILE`: hand-edited PTX runs instead of a kernel, is verified with the same
// data, and is compared with the kernel.
#include <fstream>
#include <nlohmann/json.hpp>

#include "command_kit.h"
#include "folder_kit.h"

namespace ptxbuilder::test::override_test {
namespace {

using Json = nlohmann::json;

// Runs saxpy of 64 threads with the PTX that ptxb emits, after replacing `from` with `to`.
struct Edited {
  Folder folder;
  std::string file = folder.path("edited.ptx");

  Edited(const std::string& from, const std::string& to) {
    REQUIRE(run("ptxb emit saxpy --threads 64 --assembler none -o " + folder.path("out")).code == 0);
    std::ifstream in(folder.path("out/saxpy.ptx"));
    std::string text(std::istreambuf_iterator<char>(in), {});
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    std::ofstream(file) << text.replace(at, from.size(), to);
  }
  Ran verify(const std::string& more = "") const {
    return run(fmt::format(
        "ptxb run saxpy --threads 64 --m 1 --n 5000 --device emulator --assembler none --ptx {} {}", file,
        more));
  }
};

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("an edit without a meaning is verified, and reported to have none") {
  const Edited e(by_compiler("shl.b32 \t%r5, %r4, 6;", "shl.b32 \t%r4, %r3, 6;"),
                 by_compiler("mul.lo.u32 %r5, %r4, 64;", "mul.lo.u32 %r4, %r3, 64;"));
  const Ran ran = e.verify();
  CHECK(ran.code == 0);
  CHECK(contains(ran, "edited.ptx (B; the kernel is A)\nno difference of meaning\n"));
  CHECK(count(ran.output, "  verified: 5000 of 5000 elements") == 2);
  const Json json = Json::parse(e.verify("--json --seed 5").output);
  CHECK(json["verify"]["wrong"] == 0);
  CHECK(json["edited"]["verify"]["max_error"] == json["verify"]["max_error"]);  // both use the same data
  CHECK(json["edited"]["differences"].empty());
  CHECK(run(fmt::format("saxpy --threads 64 --device emulator --assembler none --ptx {}", e.file)).code == 0);
}

TEST_CASE("an edit that computes something else fails the verification, with the difference") {
  const Edited e(by_compiler("fma.rn.f32 \t%r9, %r1, %r8, %r7;", "fma.rn.f32 \t%r9, %r1, %r7, %r8;"),
                 by_compiler("fma.rn.f32 %r9, %r1, %r7, %r8;", "fma.rn.f32 %r9, %r1, %r8, %r7;"));
  const Ran ran = e.verify();
  CHECK(ran.code == 3);
  CHECK(contains(ran, "all roles outside of its loops: st.global.b32, operands"));
  CHECK(count(ran.output, "  verified: ") == 1);
  CHECK(contains(ran, "  WRONG: 5000 of 5000 elements"));
  const Json json = Json::parse(e.verify("--json").output);
  CHECK(json["verify"]["wrong"] == 0);
  CHECK(json["edited"]["verify"]["wrong"] > 1000);
  CHECK(json["edited"]["differences"][0]["event"] == "st.global.b32");
}

TEST_CASE("an edit at which the emulator finds a fault comes with the difference too") {
  const Edited e("setp.ge.u32 \t%p1, %r6, %r2", "setp.gt.u32 \t%p1, %r6, %r2");
  const Ran ran = e.verify("--n 5001");
  CHECK(ran.code == 2);  // --n occurs twice
  const Ran wide = run(fmt::format(
      "ptxb run saxpy --threads 64 --m 1 --n 5001 --device emulator --assembler none --ptx {}", e.file));
  CHECK(wide.code == 1);
  CHECK(contains(wide, "branch, condition: setp.ge.32"));
  CHECK(contains(wide, "access out of bounds"));
}

TEST_CASE("a file that needs another launch is refused before anything runs") {
  struct Case {
    const char *from, *to, *message;
  };
  for (const Case& c : {
           Case{".entry saxpy(", ".entry saxpy2(", "it has no kernel 'saxpy'; its kernels are saxpy2"},
           {".param .u32 saxpy_param_3", ".param .u64 saxpy_param_3",
            "it cannot replace kernel 'saxpy': parameter 3 is 8 B aligned to 8, but the kernel's is 4 B "
            "aligned to 4"},
           {",\n\t.param .u32 saxpy_param_3", "", "the number of parameters is 3, but the kernel's is 4"},
           {".maxntid 64", ".maxntid 128", "the most threads (.maxntid) is 128, but the kernel's is 64"},
           {".maxntid 64", ".maxntid 64\n.reqnctapercluster 2",
            "the cluster (.reqnctapercluster) is 2 x 1 x 1, but the kernel's is any"},
           {".reg .pred", ".shared .b32 x[4]; .reg .pred",
            "static shared memory is 16 B, but the kernel's is 0 B"},
           {".visible", ".extern .shared .b8 all[]; .visible",
            "dynamic shared memory (.extern .shared) is declared, but the kernel's is not declared"},
           {".visible", ";;] .visible", "ptx 11:"},
       }) {
    const Edited e(c.from, c.to);
    const Ran ran = e.verify();
    CHECK(ran.code == 1);
    CHECK(contains(ran, "edited.ptx: "));
    CHECK(contains(ran, c.message));
    CHECK_FALSE(ran.output.find("verified") != std::string::npos);
  }
  for (const std::string file : {"/nowhere/x.ptx", "/tmp"})
    CHECK(contains(run("ptxb run saxpy --device emulator --assembler none --ptx " + file),
                   file + ": cannot be read"));
}

}  // namespace ptxbuilder::test::override_test
