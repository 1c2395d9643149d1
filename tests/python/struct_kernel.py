"""Provides a handwritten kernel with a struct parameter, y = s x + bias, which tests load from files()."""
import json
import tempfile

PTX = """.version 7.8
.target sm_90
.address_size 64
.visible .entry scaled(.param .align 8 .b8 p[24], .param .u64 y, .param .f32 bias)
.maxntid 32
{
  .reg .pred %q;
  .reg .b32 %i, %n, %block, %thread;
  .reg .f32 %s, %v, %b;
  .reg .b64 %x, %y, %at, %from, %to;
  ld.param.u64 %x, [p];
  ld.param.u32 %n, [p+8];
  ld.param.f32 %s, [p+12];
  ld.param.u64 %to, [p+16];
  ld.param.u64 %y, [y];
  ld.param.f32 %b, [bias];
  mov.u32 %block, %ctaid.x;
  mov.u32 %thread, %tid.x;
  shl.b32 %i, %block, 5;
  add.u32 %i, %i, %thread;
  setp.ge.u32 %q, %i, %n;
  @%q bra done;
  mul.wide.u32 %at, %i, 4;
  add.u64 %from, %x, %at;
  ld.global.f32 %v, [%from];
  fma.rn.f32 %v, %v, %s, %b;
  add.u64 %from, %y, %at;
  st.global.f32 [%from], %v;
  add.u64 %from, %to, %at;
  st.global.f32 [%from], %s;
done:
  ret;
}
"""


def files():
    """Returns the path of the kernel's PTX, without its extension."""
    def pointer(name, **more):
        return {"name": name, "kind": "pointer", "meaning": "numbers", "dtype": "f32", **more}

    def scalar(name, dtype, **more):
        return {"name": name, "kind": "scalar", "meaning": "a number", "dtype": dtype, **more}

    fields = [pointer("x", offset=0), scalar("n", "u32", offset=8), scalar("s", "f32", offset=12), pointer("to", offset=16)]
    sidecar = {"format": 1, "kernel": "scaled", "target": "sm_90", "ptx_version": 78, "threads": 32, "cluster": [1, 1, 1],
               "static_shared_bytes": 0, "dynamic_shared_bytes": 0, "grid": ["8", "1", "1"], "configuration": {},
               "parameters": [{"name": "p", "kind": "struct", "meaning": "what is scaled, and where the factor goes", "bytes": 24, "fields": fields},
                              pointer("y"), scalar("bias", "f32")]}
    path = f"{tempfile.mkdtemp()}/scaled"
    with open(path + ".ptx", "w") as ptx, open(path + ".json", "w") as of:
        ptx.write(PTX)
        json.dump(sidecar, of)
    return path
