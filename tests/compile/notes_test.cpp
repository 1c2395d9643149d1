// Tests reading ptxas messages from logs of ptxas 13.0.88, ptxas 13.5.37 and the driver's JIT (13.0, H100).
#include "ptxbuilder/compile/notes.h"

#include <doctest/doctest.h>

#include <set>

#include "ptxbuilder/compile/advisories.h"
#include "ptxbuilder/error.h"

namespace ptxbuilder::test::notes_test {
namespace {

// Line 9 is the first instruction of `k`, and line 25 its last.
const std::string ptx = R"(// made by a test: .loc 9 9 9 in a comment is none
.version 8.6
.target sm_90a
.address_size 64
.func helper ();
.visible .entry k(
	.param .u64 k_param_0
)
{	ld.param.u64 %rd1, [k_param_0];
	.loc	1 40 3
	wgmma.fence.sync.aligned;
	.loc	2 7 1, function_name $L__info_string0, inlined_at 1 40 3
	// setmaxnreg only in a comment
	setmaxnreg.inc.sync.aligned.u32 232;
	.loc	1 41 3
	{ wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {a0,a1,a2,a3}, %rd1, %rd2, 1, 1, 1, 0, 0; }
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {a0,a1,a2,a3}, %rd1, %rd2, 1, 1, 1, 0, 0; /* .loc 1 99 1
	.loc 1 99 1 */
	wgmma.commit_group.sync.aligned;
	.loc	1 42 3
P:	.callprototype _ ();
	@%p1 call.uni helper, ();
	wgmma.wait_group.sync.aligned 0;
	.loc 1 0 3
	ret;
}
.func helper ()
{
	setmaxnreg.dec.sync.aligned.u32 24;
	.loc	1 50 3
	ret;
}
	.file	1 "src/kernels/gemm.cpp"
	.file	2 "tile/{odd}.h"
)";

const std::string clean_log = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers
ptxas info    : Compile time = 140.447 ms
)";

const std::string spill_log = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    344 bytes stack frame, 344 bytes spill stores, 348 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 344 bytes cumulative stack size
)";

const std::string stack_log = R"(ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 400 bytes cumulative stack size
)";

Note only_note(const std::string& log) {
  Notes notes = parse_notes(log, ptx);
  REQUIRE_MESSAGE(notes.messages.size() == 1, log);
  return notes.messages[0];
}

std::string thrown(const std::string& log, const std::vector<std::string>& waived = {}) {
  try {
    check(parse_notes(log, ptx), waived);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string serialized(const std::string& because) {
  return "Potential Performance Loss: wgmma.mma_async instructions are serialized due to " + because;
}

struct Recorded {
  const char* code;
  std::string text;
};

// One message of each kind. The messages of C7506, C7512, C7516 and C7600 are from ptxas's own table of
// texts, and the other messages are from a log.
const Recorded recorded[] = {
    {"C7504",
     "Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across compilation units."},
    {"C7505", "Potential Performance Loss: 'setmaxnreg' ignored to allow debugging."},
    {"C7506",
     "Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility into 'extern' call."},
    {"C7507", "Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements."},
    {"C7508",
     "Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry."},
    {"C7509", serialized("the presence of Extern calls in the function 'k'")},
    {"C7510", serialized("wgmma pipeline crossing function boundary at a function call in the function 'k'")},
    {"C7511", serialized("insufficient register resources for the wgmma pipeline in the function 'k'")},
    {"C7512", serialized("insufficient register resources for the function 'k'")},
    {"C7513",
     serialized("non wgmma instructions defining input registers of a wgmma between start and end of the "
                "pipeline stage in the function 'k'")},
    {"C7514",
     serialized("non wgmma instructions reading accumulator registers of  a wgmma between start and end of "
                "the pipeline stage in the function 'k'")},
    {"C7515",
     serialized("non wgmma instructions defining accumulator registers of a wgmma between start and end of "
                "the pipeline stage in the function 'k'")},
    {"C7516", serialized("ill formed pipeline stage in the function 'k'")},
    {"C7517",
     "warpgroup.wait is injected in around line 19 by compiler to allow use of registers defined by GMMA in "
     "function 'k'"},
    {"C7518",
     serialized("program dependence on compiler-inserted WG.DP in divergent path in the function 'k'")},
    {"C7519",
     "warpgroup.arrive is injected in around line 17 by compiler to allow use of registers in GMMA in "
     "function 'k'"},
    {"C7520",
     serialized("program dependence on compiler-inserted WG.AR in divergent path in the function 'k'")},
    {"C7600",
     "Register allocation failed with register count of '255'. Compile the program with a higher register "
     "target"},
    {"C7602",
     "Insufficient registers (64) to compile instruction at line 17 in function k. Try to compile with "
     "register target of 154 or higher."},
};

std::string info(const Recorded& message) {
  return "ptxas info    : (" + std::string(message.code) + ") " + message.text + "\n";
}

}  // namespace

TEST_CASE("a PTX line maps to the C++ line of the nearest .loc before it in its function") {
  const LineMap lines(ptx);
  CHECK(lines.at(11) == SourceLine{"src/kernels/gemm.cpp", 40});
  CHECK(lines.at(10) == SourceLine{"src/kernels/gemm.cpp", 40});
  CHECK(lines.at(14) == SourceLine{"tile/{odd}.h", 7});
  CHECK(lines.at(17) == SourceLine{"src/kernels/gemm.cpp", 41});
  CHECK(lines.at(19) ==
        SourceLine{"src/kernels/gemm.cpp", 41});  // ignores a comment that looks like a directive
  CHECK(lines.at(23) == SourceLine{"src/kernels/gemm.cpp", 42});
  CHECK(lines.at(31) == SourceLine{"src/kernels/gemm.cpp", 50});
  CHECK(to_string(lines.at(31)) == "gemm.cpp:50");

  CHECK_FALSE(lines.at(9));   // before the function's first .loc
  CHECK_FALSE(lines.at(25));  // line 0 means that no source line belongs to it
  CHECK_FALSE(lines.at(29));  // the .loc of another function does not count
  CHECK_FALSE(lines.at(33));  // outside of functions
  CHECK_FALSE(lines.at(0));
  CHECK_FALSE(lines.at(-1));
  CHECK_FALSE(lines.at(1000));
  CHECK_FALSE(LineMap("").at(1));
}

TEST_CASE("the first instruction of a kind is found in its function, not in comments or directives") {
  const LineMap lines(ptx);
  CHECK(lines.first_entry() == "k");
  CHECK(lines.first("k", "setmaxnreg") == 14);
  CHECK(lines.first("helper", "setmaxnreg") == 29);
  CHECK(lines.first("", "setmaxnreg") == 14);
  CHECK(lines.first("k", "wgmma.mma_async") == 16);
  CHECK(lines.first("k", "call") == 22);  // .callprototype is a directive
  CHECK(lines.first("helper", "call") == 0);
  CHECK(lines.first("k", "wgmma") == 11);
  CHECK(lines.first("k", "wgmma.m") == 0);
  CHECK(lines.first("k", "fence") == 0);
}

TEST_CASE("messages are read with their severity, line and text") {
  Note note = only_note("ptxas /dev/stdin, line 17; error   : Arguments mismatch for instruction 'add'\n");
  CHECK(note.severity == Severity::error);
  CHECK(note.ptx_line == 17);
  CHECK(note.text == "Arguments mismatch for instruction 'add'");
  CHECK(note.source == SourceLine{"src/kernels/gemm.cpp", 41});
  CHECK(to_string(note) ==
        "ptxas error at gemm.cpp:41: Arguments mismatch for instruction 'add' (PTX line 17).");

  note = only_note("ptxas /dev/stdin, line 13; fatal   : Parsing error near '': syntax error");
  CHECK(note.severity == Severity::fatal);
  CHECK(note.ptx_line == 13);

  note = only_note(
      "ptxas /dev/stdin, line 16; warning : Advisory: '.multicast::cluster' modifier on instruction "
      "'cp.async.bulk{.tensor}' should be used on .target 'sm_90a/sm_100a/sm_100f/sm_103a/sm_103f/sm_110a/"
      "sm_110f' instead of .target 'sm_90' as this feature is expected to have substantially reduced "
      "performance on some future architectures\n");
  CHECK(note.severity == Severity::warning);
  CHECK(note.ptx_line == 16);

  note = only_note("ptxas error   : Debug information not found in presence of .target debug\n");
  CHECK(note.severity == Severity::error);
  CHECK(note.ptx_line == 0);
  CHECK_FALSE(note.source);

  note = only_note("ptxas fatal   : Unresolved extern function 'ext'\n");
  CHECK(note.severity == Severity::fatal);
  CHECK(note.function == "ext");

  note = only_note("ptxas warning : Stack size for entry function 'k' cannot be statically determined\n");
  CHECK(note.severity == Severity::warning);
  CHECK(note.function == "k");

  CHECK(parse_notes("", ptx).messages.empty());
  CHECK(parse_notes("some other program: error : hello\n\n", ptx).messages.empty());
}

TEST_CASE("failed() tells errors from advice") {
  CHECK(parse_notes("ptxas /dev/stdin, line 17; error   : Unknown symbol '%rX'\n", ptx).failed());
  CHECK(parse_notes("ptxas fatal   : Ptx assembly aborted due to errors\n", ptx).failed());
  CHECK_FALSE(parse_notes(info(recorded[0]), ptx).failed());
  CHECK_FALSE(parse_notes("ptxas warning :  .debug_info section not found\n", ptx).failed());
}

TEST_CASE("the driver's JIT log reads like ptxas's") {
  Notes notes = parse_notes(R"(ptxas warning :  .debug_abbrev section not found
ptxas info    : (C7505) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.
ptxas info    : (C7517) warpgroup.wait is injected in around line 16 by compiler to allow use of registers defined by GMMA in function 'k'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     352 bytes stack frame, 620 bytes spill stores, 624 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 352 bytes cumulative stack size
ptxas info    : Compile time = 65.493 ms)",
                            ptx);
  REQUIRE(notes.messages.size() == 3);
  CHECK(notes.messages[1].code == "C7505");
  CHECK(notes.messages[2].source.line == 41);
  CHECK(notes.registers() == 32);
  CHECK(notes.spill_bytes() == 620 + 624);
  CHECK(notes.stack_bytes() == 352);

  notes =
      parse_notes(R"(ptxas application ptx input, line 11; error   : Arguments mismatch for instruction 'add'
ptxas application ptx input, line 14; error   : Not a name of any known instruction: 'foo'
ptxas fatal   : Ptx assembly aborted due to errors)",
                  ptx);
  REQUIRE(notes.messages.size() == 3);
  CHECK(to_string(notes.messages[0].source) == "gemm.cpp:40");
  CHECK(to_string(notes.messages[1].source) == "{odd}.h:7");
  CHECK(
      only_note(
          "ptxas application ptx input, line 1; fatal   : Unsupported .version 9.9; current version is '9.0'")
          .severity == Severity::fatal);
}

TEST_CASE("statistics are read for each function") {
  Notes notes = parse_notes(clean_log, ptx);
  REQUIRE(notes.functions.size() == 1);
  CHECK(notes.messages.empty());
  CHECK(notes.entry() == "k");
  CHECK(notes.functions[0].entry);
  CHECK(notes.registers() == 168);
  CHECK(notes.functions[0].barriers == 16);
  CHECK(notes.spill_bytes() == 0);
  CHECK(notes.stack_bytes() == 0);

  notes = parse_notes(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 3 barriers, 60000 bytes smem\n",
      ptx);
  CHECK(notes.functions[0].shared_bytes == 60000);

  // The log is about two kernels. The first kernel calls a function.
  notes = parse_notes(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 106 registers, used 0 barriers
ptxas info    : Function properties for g
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Compiling entry function 'k2' for 'sm_90a'
ptxas info    : Function properties for k2
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
)",
                      ptx);
  REQUIRE(notes.functions.size() == 3);
  CHECK(notes.functions[0].registers == 106);
  CHECK(notes.functions[1].name == "g");
  CHECK_FALSE(notes.functions[1].entry);
  CHECK(notes.functions[1].stack_bytes == 8);
  CHECK(notes.functions[1].spill_store_bytes == 12);
  CHECK(notes.functions[1].spill_load_bytes == 16);
  CHECK(notes.functions[2].registers == 4);
  CHECK(notes.registers() == 106);
  CHECK(notes.stack_bytes() == 8);
  CHECK(notes.spill_bytes() == 28);
}

TEST_CASE("every known message is recognized, only by its own row") {
  std::set<std::string_view> seen;
  for (const Recorded& message : recorded) {
    CAPTURE(message.code);
    const Note note = only_note(info(message));
    CHECK(note.code == message.code);
    CHECK(note.text == message.text);
    CHECK_FALSE(note.explanation.empty());
    CHECK(seen.insert(find_advisory(message.text)->code).second);
    int rows = 0;
    for (const Advisory& advisory : advisories())
      rows += contains(message.text, std::string(advisory.phrase));
    CHECK(rows == 1);
  }
  for (const Advisory& advisory : advisories())
    CHECK((advisory.code.empty() || seen.contains(advisory.code)));

  CHECK(find_advisory("Feature 'WGMMA' requires PTX ISA .version 8.0 or later") != nullptr);
  CHECK(find_advisory("Instruction 'wgmma.fence' not supported on .target 'sm_90'") != nullptr);
  CHECK(find_advisory("Unsupported .version 9.9; current version is '9.0'") != nullptr);
  CHECK(find_advisory("Arguments mismatch for instruction 'add'") == nullptr);
}

TEST_CASE("the text decides if a later ptxas has renumbered or reworded a message") {
  Note note =
      only_note("ptxas info    : (C7519) " +
                serialized("program dependence on compiler-inserted WG.AR in divergent path in the function "
                           "'k' in line 23\n"));
  CHECK(note.code == "C7520");
  CHECK(contains(note.text, "[C7519 in this version of ptxas]"));
  CHECK(note.ptx_line == 23);

  note = only_note(
      "ptxas info    : (C7517) wgmma.wait_group is injected in around line 19 by compiler to allow use of "
      "registers defined by GMMA in function 'k'\n");
  CHECK(note.code == "C7517");
  CHECK(note.source.line == 41);

  note = only_note("ptxas info    : (C7599) Potential Performance Loss: something new in function 'k'.\n");
  CHECK(note.code == "C7599");
  CHECK(note.explanation.empty());
}

TEST_CASE("a message without a line points to the first instruction that may cause it") {
  auto note_of = [](const char* code) {
    for (const Recorded& message : recorded) {
      if (std::string(message.code) == code) return only_note(info(message));
    }
    FAIL("no such message");
    return Note{};
  };
  Note note = note_of("C7514");
  CHECK(note.ptx_line == 16);
  CHECK(note.opcode == "wgmma.mma_async");
  CHECK(contains(to_string(note), "near gemm.cpp:41: "));
  CHECK(contains(to_string(note), "(its first wgmma.mma_async is PTX line 16)"));
  CHECK(note_of("C7510").ptx_line == 22);
  CHECK(note_of("C7508").ptx_line == 14);
  CHECK(to_string(note_of("C7508").source) == "{odd}.h:7");

  // ptxas 13.5 prints the line, or 0 if it is unknown.
  note = only_note("ptxas info    : (C7510) " +
                   serialized("wgmma pipeline crossing function boundary at a function "
                              "call in the function 'k' in line 23\n"));
  CHECK(note.ptx_line == 23);
  CHECK(note.opcode.empty());
  CHECK(contains(to_string(note), "at gemm.cpp:42: "));
  note = only_note(
      "ptxas info    : (C7513) " +
      serialized("non wgmma instructions defining input registers of a wgmma between start and end of "
                 "the pipeline stage in the function 'k' in line 0\n"));
  CHECK(note.ptx_line == 16);
  CHECK(note.opcode == "wgmma.mma_async");

  // The note has no line if the function has no such instruction.
  note = only_note("ptxas info    : (C7510) " +
                   serialized("wgmma pipeline crossing function boundary at a function "
                              "call in the function 'helper'\n"));
  CHECK(note.ptx_line == 0);
  CHECK_FALSE(note.source);
}

TEST_CASE("messages about one C++ line collapse, with a count") {
  auto injected = [](int line) {
    return "ptxas info    : (C7519) warpgroup.arrive is injected in around line " + std::to_string(line) +
           " by compiler to allow use of registers in GMMA in function 'k'\n";
  };
  Notes notes = parse_notes(injected(16) + injected(11) + injected(17) + injected(19), ptx);
  REQUIRE(notes.messages.size() == 2);
  CHECK(notes.messages[0].count == 3);
  CHECK(notes.messages[0].ptx_line == 16);
  CHECK(notes.messages[0].source.line == 41);
  CHECK(notes.messages[1].count == 1);
  CHECK(notes.messages[1].source.line == 40);
  CHECK(contains(to_string(notes.messages[0]), "(3 times)"));

  const std::string mismatch = "; error   : Arguments mismatch for instruction 'add'\n";
  const std::string in = "ptxas /dev/stdin, line ";
  CHECK(parse_notes(in + "16" + mismatch + in + "17" + mismatch, ptx).messages.size() == 1);
  // Errors on two PTX lines are two errors, even without C++ lines.
  CHECK(parse_notes(in + "16" + mismatch + in + "17" + mismatch, "").messages.size() == 2);
  CHECK(parse_notes(in + "16" + mismatch + in + "16" + mismatch, "").messages.size() == 1);
}

TEST_CASE("check() lets a clean kernel pass, and warnings") {
  CHECK(thrown(clean_log) == "");
  CHECK(thrown("") == "");
  CHECK(thrown("ptxas warning :  .debug_info section not found\n" + clean_log) == "");
}

TEST_CASE("check() reports each advisory until it is waived by its own name") {
  for (const Recorded& message : recorded) {
    const std::string code = message.code;
    if (!code.starts_with("C75")) continue;
    CAPTURE(code);
    const std::string text = thrown(info(message) + clean_log);
    CHECK(contains(text, "kernel 'k'"));
    CHECK(contains(text, "ptxas info " + code));
    CHECK(contains(text, std::string(find_advisory(message.text)->explanation)));
    CHECK(contains(text, "waive \"" + code + "\""));
    CHECK(thrown(info(message) + clean_log, {code}) == "");
    CHECK(thrown(info(message) + clean_log, {"spills", "stack", code == "C7510" ? "C7511" : "C7510"}) ==
          text);
  }
  CHECK(contains(thrown(info(recorded[10]) + clean_log), "near gemm.cpp:41"));
}

TEST_CASE("check() reports spills and stack until they are waived") {
  const std::string spills = thrown(spill_log);
  CHECK(contains(
      spills,
      "344 bytes of spill stores and 348 bytes of spill loads in function 'k', which uses 32 registers"));
  CHECK(contains(spills, "waive \"spills\""));
  CHECK(contains(spills, "waive \"stack\""));
  CHECK_FALSE(contains(thrown(spill_log, {"stack"}), "waive \"stack\""));
  CHECK_FALSE(contains(thrown(spill_log, {"spills"}), "waive \"spills\""));
  CHECK(thrown(spill_log, {"spills", "stack"}) == "");

  CHECK(contains(thrown(stack_log), "400 bytes of stack in function 'k'"));
  CHECK_FALSE(contains(thrown(stack_log), "spill stores"));
  CHECK(thrown(stack_log, {"stack"}) == "");
  CHECK(thrown(stack_log, {"spills"}) == thrown(stack_log));
}

TEST_CASE("check() reports all faults at once") {
  const std::string text = thrown(info(recorded[4]) + info(recorded[10]) + spill_log);
  for (const char* part : {"C7508", "C7514", "\"spills\"", "\"stack\""}) CHECK(contains(text, part));
}

TEST_CASE("a waiver that names nothing is an error, also for a clean kernel") {
  for (const char* name : {"C7599", "c7510", "spill", "C7602", ""}) {
    CAPTURE(name);
    const std::string text = thrown(clean_log, {name});
    CHECK(contains(text, "cannot be waived"));
    for (const std::string& valid : waiver_names()) CHECK(contains(text, valid));
  }
  for (const std::string& name : waiver_names()) CHECK(thrown(clean_log, {name}) == "");
  CHECK(waiver_names().size() == 17 + 2 + 3);  // codes, spills and stack, defects

  // An unknown code of a future ptxas can be waived if it occurs.
  const std::string future =
      "ptxas info    : (C7599) Potential Performance Loss: something new\n" + clean_log;
  CHECK(contains(thrown(future), "C7599"));
  CHECK(thrown(future, {"C7599"}) == "");
}

}  // namespace ptxbuilder::test::notes_test
