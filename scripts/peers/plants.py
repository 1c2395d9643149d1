"""Defines changes that are planted in CUTLASS's PTX, each with the expected first difference. A plant has a description, a regular
expression, the replacement, the index of the match (-1 for the last, None for all), and an expression that the first difference must match.
"""
import re

EVICT_FIRST = str(0x12F0000000000000)
PLANTS = [
    ("step of a descriptor", r"(add\.s32\s+%r\d+, %r\d+, )2(;\s*mov\.b64)", r"\g<1>4\2", -1, "mainloop: places of"),
    ("another swizzle", r"(or\.b64\s+%rd\d+, %rd\d+, )4611686293305360384;", rf"\g<1>{2**63 + 4611686293305360384 - 2**62};", -1,
     "swizzle 64"),
    ("no fence ahead of the products", r"wgmma\.fence\.sync\.aligned;", "", -1, "mainloop: order: wait for full, fence, products"),
    ("no commit", r"wgmma\.commit_group\.sync\.aligned;", "", -1, "products, commit, wait until"),
    ("wait 0 instead of 1", r"wgmma\.wait_group\.sync\.aligned 1", "wgmma.wait_group.sync.aligned 0", 0, "wait until 0 groups are left"),
    ("other types", r"(m64n\d+k\d+\.f32)\.(bf16\.bf16|e4m3\.e4m3)", lambda m: m[1] + (".f16.f16" if "bf16" in m[2] else ".e5m2.e4m3"), -1, "mainloop: products in an iteration"),
    ("a negated operand", r"p,(\s+)1,(\s+)1(,\s+0,\s+0)?;", r"p,\g<1>1,\g<2>-1\3;", -1, "mainloop: scales and transposes"),
    ("one stage fewer", r"(cp\.async\.bulk\.tensor(?:(?!cp\.async).)*?setp\.eq\.s32\s+%p\d+, %r\d+, )(\d)(;\s*selp)",
     lambda m: m[1] + str(int(m[2]) - 1) + m[3], 0, "loads use the same number of stages as products"),
    ("registers of the producer", r"(setmaxnreg\.dec\.sync\.aligned\.u32) 40", r"\1 24", 0, "roles: producer"),
    ("registers of the consumers", r"(setmaxnreg\.inc\.sync\.aligned\.u32) 232", r"\1 240", 0, "roles: consumer"),
    ("fewer threads", r"\.maxntid 384", ".maxntid 256", 0, "launch: threads"),
    ("dimensions of a load", r"(tensor)\.3d(\.shared::cluster)", r"\1.4d\2", 0, "copies in: dimensions"),
    ("policy of the cache", r"1152921504606846976", EVICT_FIRST, None, "cache policy|masks and hints"),
    ("multicast to other CTAs", r"(mov\.u16\s+%rs\d+, )3(;(?:(?!mov\.u16).)*?multicast)", r"\g<1>1\2", 0, "copies in: multicast"),
    ("expected bytes", r"(expect_tx\.shared::cta\.b64 _, \[%r\d+\]), %r\d+", r"\1, 49136", 0, "expect, bytes|bytes expected"),
    ("parity that flips at other times", r"(selp\.u32\s+%r\d+, )1, 0(, %p\d+;\s*xor\.b32[^;]*;(?:(?!cp\.async).)*?add\.s32)", r"\g<1>0, "
                                                                                                  r"1\2", None, "parity"),
    ("arrivals of a phase", r"(mbarrier\.init\.shared::cta\.b64 \[%r\d+\]), (%r\d+)(.*?mbarrier\.init\.shared::cta\.b64 \[%r\d+\]), "
     r"(%r\d+)",
     r"\1, \2\3, 7", 0, "arrivals that free a stage"),
    ("no fence after the barriers' setup", r"fence\.mbarrier_init\.release\.cluster;", "", None, "fence of barriers"),
    ("no fence ahead of a store", r"fence\.proxy\.async\.shared::cta;", "", 0, "epilogue: fences"),
    ("no group of a store", r"cp\.async\.bulk\.commit_group;", "", 0, "epilogue: groups of stores"),
    ("wait 2 for 1 store", r"(cp\.async\.bulk\.wait_group\.read) 1", r"\1 2", None, "wait_group.read, groups left: 1"),
    ("fewer threads meet", r"(mov\.u32\s+%r\d+, )(\d+)(;\s*// begin inline asm\s*bar\.sync)",
     lambda m: m[1] + str(int(m[2]) // 2) + m[3], 0, "bar.sync"),
    ("another rounding", r"cvt\.rn\.bf16x2\.f32", "cvt.rz.bf16x2.f32", 0, "epilogue: conversions"),
    ("transposed on the way to shared memory", r"(stmatrix\.sync\.aligned\.x4\.m8n8)\.shared", r"\1.trans.shared", 0, "epilogue: into "
                                                  "shared memory"),
    ("the next launch is not let in", r"griddepcontrol\.launch_dependents;", "", 0, "griddepcontrol.launch_dependents: one in A"),
    ("no meeting at the start", r"barrier\.cluster\.wait\.aligned;|bar\.sync\s+0;", "", 0, "outside of its loops: bar"),
]


def planted(text, pattern, change, which):
    """Returns the changed text, or None if nothing matches."""
    matches = list(re.finditer(pattern, text, re.DOTALL))
    if not matches:
        return None
    for match in reversed(matches if which is None else [matches[which]]):
        new = change(match) if callable(change) else match.expand(change)
        text = text[:match.start()] + new + text[match.end():]
    return text
