// Tests that the PTX lexer, parser and printer reproduce text, and that errors have positions.
#include "ptxbuilder/ptx/ptx.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "ptxbuilder/error.h"

namespace ptxbuilder::ptx_text::ptx_test {
namespace {

std::string squeezed(const std::string& text) {
  std::string out;
  for (char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) out += c;
  return out;
}

std::string body(const std::string& text) {
  return ".version 8.6\n.target sm_90a\n.entry k() {\n" + text + "\n}\n";
}

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

Instruction instruction_of(const std::string& text) {
  return parse(body(text)).find("k")->body.at(0).instruction;
}

TEST_CASE("ptx: print(parse(x)) is x up to white space") {
  for (const char* text : {
           "add.s32 %r1, %r2, -1;",
           "@!%p1 bra.uni $L__BB0_3;",
           "$L__BB0_3:",
           "// begin inline asm\nmbarrier.init.shared::cta.b64 [%r24], 1;\n// end inline asm",
           "{ .reg .pred p; W_0: mbarrier.try_wait.parity.shared::cta.b64 p, [%r49+8], %r50; @!p bra W_0; }",
           "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd7, {%r2, "
           "%r3}], [%r4];",
           "ld.global.v4.f32 {%f1, %f2, %f3, _}, [%rd1+-16];",
           "ld.global.u32 %r1, [%rd1+4].unified;",
           "elect.sync t|%p12, 0xffffffff;",
           "mov.f32 %f1, 0f3F800000; mov.f64 %d1, 0d3FF0000000000000; mov.f32 %f2, 1.5; mov.f32 %f3, 2.5e-3;",
           "call.uni (retval0), vprintf, (param0, param1);",
           "call (retval0), %rd3, (param0), prototype_0;",
           "prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .b64 _);",
           "brx.idx %r1, table; table: .branchtargets $L1, $L2;",
           ".pragma \"nounroll\";",
           ".loc 1 93 21  // gemm.cpp:93\nwgmma.fence.sync.aligned;",
           ".loc 2 3 4, function_name $L__info_string0, inlined_at 1 7 3\nret;",
           ".reg .f32 acc<128>, other; .reg .v4 .f32 v; .local .align 16 .b8 depot[40];",
           ".shared .align 4 .b8 a[(4*2)][3]; mov.u32 %r1, a+(2<<3);",
           "vadd.s32.u32 %r1, %r2.b0, %r3.h1; mov.u32 %r4, %tid.x;",
           "setp.lt.and.f32 %p1|%p2, %f1, %f2, !%p3;",
           "tex.2d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [t, {%r1, %r2}];",
           "frobnicate.sync::odd.v7 %r1, {{%r2}, %r3}, \"text\";",
           "mov.u32 %r1, 0x1fU; mov.u32 %r2, 0b101; mov.u32 %r3, 017; ; ret;",
       }) {
    INFO(text);
    std::string whole = body(text);
    CHECK(squeezed(print(parse(whole))) == squeezed(whole));
  }
  std::string module = R"(#1 "a.cu"
.version 9.0
.target sm_90a, texmode_independent
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .global .align 8 .u64 table[3] = {generic(a)+8, 0xFF(a), (2+3)*4};
.global .attribute(.managed) .align 4 .u32 a = 7; /* kept */
.const .align 4 .f32 c[2] = {0f3F800000, 0f00000000};
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b) ;
.visible .func .attribute(.unified(1, 2)) unified;
.weak .func noop() .noreturn { ret; }
.visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 m[128])
.maxntid 384, 1, 1
.reqnctapercluster 2, 1, 1
.pragma "nounroll";
.minnctapersm 1 {
// only a comment
}
.file 1 "k.cu", 17, 4
.section .debug_str { info0: .b8 65,66,0 }
.alias a, b;
// last
)";
  CHECK(squeezed(print(parse(module))) == squeezed(module));
}

TEST_CASE("ptx: printed text parses to the same") {
  for (const char* text : {"mov.u32 %r1, 4 % r2;", "mov.u32 %r1, 7 % 4;", "mov.u32 %r1, 1 - -1;",
                           "mov.u32 %r1, 1 << (2 >> 1);"}) {
    std::string once = print(parse(body(text)));
    CHECK(print(parse(once)) == once);
  }
  CHECK(integer_value(instruction_of("mov.u32 %r1, 7 % (2+2);").operands[1]) == 3);
}

TEST_CASE("ptx: a byte-order mark before the text does not belong to it") {
  const std::string text = body("mov.u32 %r1, 4;");
  CHECK(print(parse("\xef\xbb\xbf" + text)) == print(parse(text)));
  CHECK_THROWS(parse(text + "\xef\xbb\xbf"));
}

TEST_CASE("ptx: the tree represents the text") {
  Instruction i = instruction_of("@!%p3 mad.lo.s32 %r1, %r2, (2+3)*4, -0x10;");
  REQUIRE(i.guard);
  CHECK(i.guard->negated);
  CHECK(i.guard->predicate == "%p3");
  CHECK(i.opcode == "mad.lo.s32");
  REQUIRE(i.operands.size() == 4);
  CHECK(i.operands[0].is_name("%r1"));
  CHECK(integer_value(i.operands[2]) == 20);
  CHECK(integer_value(i.operands[3]) == -16);
  CHECK(!integer_value(i.operands[1]));

  i = instruction_of("tex [map, {%r1, %r2}], a|b;");
  REQUIRE(i.operands.size() == 2);
  CHECK(i.operands[0].kind == Operand::Kind::address);
  REQUIRE(i.operands[0].parts.size() == 2);
  CHECK(i.operands[0].parts[1].kind == Operand::Kind::vector);
  CHECK(i.operands[1].kind == Operand::Kind::binary);
  CHECK(i.operands[1].text == "|");

  Module m = parse(
      ".version 8.0\n.target sm_90a\n.visible .entry k(.param .align 64 .b8 m[128], .param .u32 n) { .reg "
      ".b32 %r<9>; }");
  const Function* k = m.find("k");
  REQUIRE(k);
  CHECK(m.find("absent") == nullptr);
  CHECK(k->entry);
  REQUIRE(k->parameters.size() == 2);
  CHECK(k->parameters[0].after(".align") == "64");
  CHECK(k->parameters[0].names[0].extents == std::vector<std::string>{"128"});
  CHECK(k->body[0].declaration.names[0].count == "9");
  CHECK(split_opcode("ld.shared::cta.v4.f32") ==
        std::vector<std::string_view>{"ld", "shared::cta", "v4", "f32"});
}

TEST_CASE("ptx: errors give the line, the column and what was expected") {
  CHECK(error_of(body("add.s32 %r1, %r2")).find("ptx 5:1: expected ','") == 0);
  CHECK(error_of(body("add.s32 %r1 %r2;")) == "ptx 4:13: expected ',' or ';' after the operand, found '%r2'");
  CHECK(error_of(body("add.s32 %r1, ;")) == "ptx 4:14: expected an operand after ','");
  CHECK(error_of(body("mov \x01, 2;")).find("ptx 4:5: byte 0x01 does not begin a PTX token") == 0);
  CHECK(error_of(body("/* open")).find("ptx 4:1: the comment") == 0);
  CHECK(error_of(body(".pragma \"open;\n")).find("ptx 4:9: the string") == 0);
  CHECK(error_of(".version 8.0\nadd.s32 a, b, c;").find("ptx 2:1: expected a directive") == 0);
  CHECK(error_of(".entry k() { ret;").find("the body of k is not closed") != std::string::npos);
  CHECK(error_of(body("mov a, " + std::string(5000, '(') + ";")).find("nested more") != std::string::npos);
  CHECK(error_of(body("add.s32 %r1, %r2, 3;")) == "");
  CHECK(error_of(".entry k(.param .u32) { ret; }").find("ptx 1:23: a parameter of k has no name") == 0);
  CHECK(error_of(".func f(.param .u32);") == "");
}

TEST_CASE("ptx: the tree of an expression is not deeper than the nesting limit, whatever makes it deep") {
  auto times = [](int n, std::string_view what) {
    std::string text;
    for (int i = 0; i < n; ++i) text += what;
    return text;
  };
  // If there were no limit, each of these would overflow the stack when the tree is traversed or freed.
  for (const char* step : {"1+", "-", "(", "1 ? 2 : ", "f(", "{", "(1)+"}) {
    CAPTURE(step);
    CHECK(error_of(body("mov a, " + times(300000, step) + "1;")).find("more than 200 levels deep") !=
          std::string::npos);
  }
  CHECK(error_of(body("mov a, " + times(150, "1+") + "1;")) == "");
  CHECK(integer_value(instruction_of("mov a, " + times(150, "1+") + "1;").operands[1]) == 151);
  CHECK(error_of(body("mov a, {" + times(100000, "1+1, ") + "1};")) == "");  // wide is not deep
  CHECK(error_of(body(times(300000, "{"))).find("more than 200 levels deep") != std::string::npos);
}

}  // namespace
}  // namespace ptxbuilder::ptx_text::ptx_test
