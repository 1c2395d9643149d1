// Tests the commands that show machine code, from a user's point of view: `ptxb emit --sass`, `ptxb diff`
// with cubins, and `ptxb annotate`.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "command_kit.h"
#include "folder_kit.h"
#include "options.h"

namespace ptxbuilder::test::sass_command_test {
namespace {

using Json = nlohmann::json;

const std::string size_fatbin = PTXBUILDER_TEST_DIR "/compile/device_code/size.fatbin";

// Returns whether this machine has ptxas and nvdisasm. Otherwise, the calling test is skipped.
bool has_tools() {
  static const Ran ran = run("ptxb emit saxpy --sass");
  if (ran.code != 0) ptxbuilder::test::skip(ran.output);
  return ran.code == 0;
}

}  // namespace

TEST_CASE("cubins are compared as machine code, also those in fatbins, with any disassembler") {
  const Folder folder;
  const std::string tool = folder.script("nvdisasm", R"(cat <<'END'
	.section	.text.add,"ax",@progbits
        /*0000*/                   LDG.E R0, [R2.64] ;
        /*0010*/                   FADD R0, R0, R1 ;
        /*0020*/                   EXIT ;
	.section	.text.twice,"ax",@progbits
        /*0000*/                   LDG.E R0, [R2.64] ;
        /*0010*/                   FADD R0, R0, R0 ;
        /*0020*/                   STL [R1], R0 ;
        /*0030*/                   EXIT ;
END)");
  const std::string both = fmt::format("ptxb diff {0} {0} --nvdisasm {1} ", size_fatbin, tool);
  Ran ran = run(both + "--sass --kernel add");
  CHECK(ran.code == 0);
  CHECK(contains(ran, "  registers "));
  CHECK(contains(ran, "\nno difference of meaning\n"));
  ran = run(both + "--sass --kernel add --kernel-b twice");
  CHECK(ran.code == 1);
  CHECK(contains(ran, "  STL                   0      1  +1\n"));
  CHECK(contains(ran, "resources\n"));
  CHECK(contains(ran, "SASS: spill stores (STL), count: 0 in A, 1 in B; may mean traffic through L1"));
  const Json json = Json::parse(run(both + "--sass --kernel add --kernel-b twice --json").output);
  CHECK(json["sass"]["b"]["histogram"]["FADD"] == 1);
  CHECK(json["sass"]["a"]["registers"].get<int>() > 0);  // read from the cubin in the fatbin
  CHECK(json["differences"].size() >= 2);
  CHECK(contains(run(both + "--kernel add"), "no difference of meaning"));  // PTX has precedence
  CHECK_FALSE(run(both + "--kernel add").output.find("registers") != std::string::npos);

  ran = run(both + "--sass --kernel thrice");
  CHECK(ran.code == 2);
  ran = run(fmt::format("ptxb diff {0} {0} --sass --kernel add --nvdisasm /nowhere/nvdisasm", size_fatbin));
  CHECK(ran.code == 2);
  CHECK(contains(ran, "size.fatbin: nvdisasm, which reads cubins, was not found"));
}

TEST_CASE("emit --sass prints machine code or writes it, and without a cubin there is none") {
  CHECK(contains(run("ptxb emit saxpy --sass --assembler none"), "SASS needs a cubin, but there is none"));
  CHECK(contains(run("ptxb emit saxpy"), "--emit DIR, --keep DIR or --sass is required"));
  if (!has_tools()) return;
  const Folder folder;
  Ran ran = run("ptxb emit saxpy --sass");
  CHECK(contains(ran, ".text.saxpy:"));
  CHECK(contains(ran, "FFMA"));
  CHECK(Json::parse(run("ptxb emit saxpy --sass --json").output)["sass"] == ran.output);
  ran = run("ptxb emit saxpy --sass -o " + folder.path("out"));
  CHECK(contains(ran, "out/saxpy.sass\n"));
  CHECK(std::filesystem::file_size(folder.path("out/saxpy.sass")) > 500);
  ran = run(fmt::format("ptxb diff {}/saxpy.cubin kernel:saxpy", folder.path("out")));
  CHECK(ran.code == 0);
  ran = run(fmt::format("ptxb diff {}/saxpy.cubin \"kernel:saxpy threads=64\"", folder.path("out")));
  CHECK(ran.code == 1);
  CHECK(contains(ran, "SASS instructions: all, with operands, hash: "));
}

TEST_CASE("annotate: only the PTX if nothing assembles or disassembles it") {
  const Ran ran =
      run(fmt::format("ptxb annotate saxpy --assembler none --source {}/..", PTXBUILDER_TEST_DIR));
  CHECK(ran.code == 0);
  CHECK(contains(ran, "note: PTX alone: no cubin: assembler none\n"));
  CHECK(contains(ran, "saxpy: 18 PTX instructions\n"));
  CHECK(contains(ran, "    22     5        if_(i < count, [&] { y[i] = fma(alpha, x[i], y[i]); });\n"));
  CHECK(contains(ran, by_compiler("fma.rn.f32 %r9, %r1, %r8, %r7;", "fma.rn.f32 %r9, %r1, %r7, %r8;")));
  const Ran elsewhere = run("ptxb annotate saxpy --assembler none --source /nowhere");
  CHECK(elsewhere.code == 0);
  CHECK(contains(elsewhere, "    22     5\n"));
  CHECK(run("ptxb annotate saxpy --assembler none --ncu /nowhere.csv").code == 1);
  CHECK(run("ptxb annotate").code == 2);
}

TEST_CASE("annotate: each SASS instruction has its PTX and C++ line, and lines have counts") {
  if (!has_tools()) return;
  const std::string annotate = fmt::format("ptxb annotate gemm_tile --source {}/.. ", PTXBUILDER_TEST_DIR);
  const Json json = Json::parse(run(annotate + "--json").output);
  size_t sass = 0, ptx = 0, hgmma = 0;
  for (const Json& line : json["lines"]) sass += line["sass"].get<size_t>(), ptx += line["ptx"].get<size_t>();
  CHECK(sass == json["sass"].size());
  CHECK(ptx == json["ptx_instructions"]);
  for (const Json& i : json["sass"]) {
    if (!i["sass"].get<std::string>().starts_with("HGMMA")) continue;
    ++hgmma;
    CHECK(i["ptx"].get<std::string>().find("wgmma.") != std::string::npos);
    CHECK(i["file"] == "kernels/steps/gemm_tile.cpp");
    const auto line = std::find_if(json["lines"].begin(), json["lines"].end(), [&](const Json& l) {
      return l["line"] == i["line"] && l["file"] == i["file"];
    });
    REQUIRE(line != json["lines"].end());
    CHECK((*line)["source"].get<std::string>().find("mma(") != std::string::npos);
  }
  CHECK(hgmma == 8);
  CHECK(contains(run(annotate), "HGMMA.64x128x16.F32"));
}

TEST_CASE("reports of ptxas about a kernel are accepted if they are waived by name") {
  if (!has_tools()) return;
  const Folder folder;
  const std::string fields =
      "--bias yes --activation gelu --amax yes --d e4m3 --d_scale yes --m 64 --n 64 --k 64 --no-cache ";
  const std::string emit = "ptxb emit gemm -o " + folder.path("out") + " " + fields;
  const Ran refused = run(emit);
  CHECK(refused.code == 1);
  CHECK(contains(refused, "To accept it, waive \"spills\"."));
  const std::string waived = "--waive spills --waive stack";
  CHECK(run(emit + waived).code == 0);
  CHECK(run("ptxb export gemm -o " + folder.path("out") + " " + fields + waived).code == 0);
  CHECK(run("gemm --device emulator " + fields + waived).code == 0);
  CHECK(contains(run(emit + "--waive stack"), "waive \"spills\""));
}

TEST_CASE(
    "annotate: the samples of a profile are shown with the instructions, and those of another kernel are "
    "refused") {
  if (!has_tools()) return;
  const Folder folder;
  const std::string annotate = fmt::format("ptxb annotate saxpy --source {}/.. ", PTXBUILDER_TEST_DIR);
  const Json plain = Json::parse(run(annotate + "--json").output);
  // The lines have the form of Nsight Compute's source page: a preamble, a header, and a row for each
  // instruction.
  auto profile = [&](const std::string& name, size_t rows, const char* header) {
    std::ofstream file(folder.path(name));
    file << "==PROF== Disconnected\n" << header;
    for (size_t i = 0; i < rows; ++i)
      file << fmt::format("\"{}\",\"0x7f{:04x}\",\"      {} \",\"{}\",\"0\"\n", i, 16 * i,
                          plain["sass"][i]["sass"].get<std::string>(),
                          i == 3 ? "1,000" : std::to_string(i % 5));
    return annotate + "--ncu " + folder.path(name);
  };
  const char* header = "\"#\",\"Address\",\"Source\",\"Warp Stall Sampling (All Samples)\",\"# Warps\"\n";
  const size_t all = plain["sass"].size();
  const Json sampled = Json::parse(run(profile("good.csv", all, header) + " --json").output);
  size_t total = 0, by_line = 0;
  for (const Json& i : sampled["sass"]) total += i["samples"].get<size_t>();
  for (const Json& l : sampled["lines"]) by_line += l["samples"].get<size_t>();
  CHECK(sampled["sass"][3]["samples"] == 1000);
  CHECK(sampled["sass"][4]["samples"] == 4);
  CHECK(total == by_line);
  const Ran text = run(profile("good.csv", all, header));
  CHECK(contains(text, fmt::format("{} samples\n", total)));
  CHECK(contains(text, " %  u32 i = ctaid_x() * threads + tid_x();\n"));

  CHECK(contains(run(profile("short.csv", all - 1, header)),
                 "short.csv: it is the profile of another kernel: instruction"));
  CHECK(contains(run(profile("none.csv", all, "\"#\",\"Address\",\"Source\",\"Live\"\n")),
                 "none.csv: there is no header with the columns Source and Warp Stall Sampling"));
  CHECK(contains(run(annotate + "--ncu /nowhere.csv"), "/nowhere.csv: it cannot be read, or is empty"));
  std::ofstream(folder.path("words.csv")) << header << "\"0\",\"0\",\"LDC R1\",\"many\",\"0\"\n";
  CHECK(contains(run(annotate + "--ncu " + folder.path("words.csv")),
                 "words.csv: line 2: 'many' is not a number of samples"));
}

}  // namespace ptxbuilder::test::sass_command_test
