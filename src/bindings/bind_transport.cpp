// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bindings/status.h"
#include "catalog/catalog.h"
#include "transport/error_detail.h"
#include "transport/providers.h"
#include "transport/reserved_area.h"

namespace nb = nanobind;

namespace flightshmem::bindings {
namespace {

using TransportPtr = std::shared_ptr<Transport>;

// Makes Ctrl-C and the script's signal handlers work while the main thread waits in a collective.
arrow::Status CheckPythonSignals() {
  nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() == 0 ? arrow::Status::OK()
                                   : arrow::Status::Cancelled("interrupted by a signal");
}

const arrow::Status& StatusOf(const arrow::Status& status) { return status; }
template <typename T>
const arrow::Status& StatusOf(const arrow::Result<T>& result) {
  return result.status();
}

// Runs a call that may wait without the GIL; raises what a signal handler raised meanwhile.
template <typename Call>
auto Blocking(Call call) {
  auto outcome = [&] {
    nb::gil_scoped_release release;
    return call();
  }();
  if (!StatusOf(outcome).ok() && PyErr_Occurred()) throw nb::python_error();
  return Check(std::move(outcome));
}

// The bytes of any C-contiguous object with the buffer protocol.
class BufferView {
 public:
  explicit BufferView(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

nb::bytes ToBytes(std::span<const std::byte> bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

// A bytes object to be filled before anybody else sees it.
nb::bytes NewBytes(uint64_t size) {
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
  if (bytes == nullptr) throw nb::python_error();
  return nb::steal<nb::bytes>(bytes);
}
std::span<std::byte> Inside(const nb::bytes& bytes) {
  return {reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes.ptr())), bytes.size()};
}

arrow::Result<NumericType> TypeOf(nb::dlpack::dtype type) {
  const int log2_bytes = type.bits == 8 ? 0 : type.bits == 16 ? 1 : type.bits == 32 ? 2 : 3;
  const bool is_one_value = type.lanes == 1 && type.bits == 8 << log2_bytes;
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (is_one_value && code == nb::dlpack::dtype_code::Int) {
    return static_cast<NumericType>(static_cast<int>(NumericType::kInt8) + log2_bytes);
  }
  if (is_one_value && code == nb::dlpack::dtype_code::UInt) {
    return static_cast<NumericType>(static_cast<int>(NumericType::kUInt8) + log2_bytes);
  }
  if (is_one_value && code == nb::dlpack::dtype_code::Float && log2_bytes >= 2) {
    return log2_bytes == 2 ? NumericType::kFloat : NumericType::kDouble;
  }
  return arrow::Status::TypeError(
      "[reduce] takes integers and floats of 32 or 64 bits, got another type: convert the array");
}

arrow::Result<ReduceOp> OpOf(std::string_view name) {
  constexpr std::string_view kNames[] = {"sum", "prod", "min", "max", "and", "or", "xor"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<ReduceOp>(i);
  }
  return arrow::Status::Invalid("[reduce] knows sum, prod, min, max, and, or, xor, got ", name);
}

// The value of `object` as a T; raises when it does not fit.
template <typename T>
T FitTo(nb::int_ object, std::string_view dtype) {
  T value{};
  if (nb::try_cast<T>(object, value)) return value;
  Check(arrow::Status::Invalid("[atomic] value does not fit ", dtype, ", got ",
                               nb::str(object).c_str()));
  return value;  // not reached
}

// Calls `visit` with a value of the integer type of that name.
template <typename Visitor>
auto WithAtomicType(std::string_view dtype, Visitor visit) {
  if (dtype == "int32") return visit(int32_t{});
  if (dtype == "uint32") return visit(uint32_t{});
  if (dtype == "int64") return visit(int64_t{});
  if (dtype == "uint64") return visit(uint64_t{});
  Check(arrow::Status::TypeError("[atomic] takes int32, int64, uint32 or uint64, got ", dtype));
  return visit(int64_t{});  // not reached
}

void Put(Transport& self, int pe, uint64_t offset, nb::handle buffer) {
  const BufferView view(buffer);
  const auto bytes = view.bytes();
  Blocking([&] { return self.Put({pe, offset}, bytes.data(), bytes.size()); });
}

nb::bytes Get(Transport& self, int pe, uint64_t offset, uint64_t nbytes) {
  // Before the room is made: a wrong size should be told as such, not as lack of memory.
  if (nbytes > self.segment_size()) Check(self.Get(nullptr, {pe, offset}, nbytes));
  nb::bytes out = NewBytes(nbytes);
  Blocking([&] { return self.Get(Inside(out).data(), {pe, offset}, nbytes); });
  return out;
}

// The source must live until quiet(): the transport object keeps it.
void PutNbi(nb::object self, int pe, uint64_t offset, nb::object buffer) {
  nb::object view = nb::steal(PyMemoryView_FromObject(buffer.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  const BufferView source(view);
  const auto bytes = source.bytes();
  Transport& transport = nb::cast<Transport&>(self);
  Blocking([&] { return transport.PutNbi({pe, offset}, bytes.data(), bytes.size()); });
  if (!nb::hasattr(self, "_in_flight")) nb::setattr(self, "_in_flight", nb::list());
  self.attr("_in_flight").attr("append")(view);
}

void Quiet(nb::object self) {
  Transport& transport = nb::cast<Transport&>(self);
  Blocking([&] { return transport.Quiet(); });
  if (nb::hasattr(self, "_in_flight")) nb::delattr(self, "_in_flight");
}

nb::int_ FetchAdd(Transport& self, int pe, uint64_t offset, nb::int_ value,
                  std::string_view dtype) {
  return WithAtomicType(dtype, [&](auto example) {
    const auto operand = FitTo<decltype(example)>(value, dtype);
    return nb::int_(Blocking([&] { return self.FetchAdd(GlobalPtr{pe, offset}, operand); }));
  });
}

nb::int_ CompareSwap(Transport& self, int pe, uint64_t offset, nb::int_ expected, nb::int_ desired,
                     std::string_view dtype) {
  return WithAtomicType(dtype, [&](auto example) {
    const auto from = FitTo<decltype(example)>(expected, dtype);
    const auto to = FitTo<decltype(example)>(desired, dtype);
    return nb::int_(Blocking([&] { return self.CompareSwap(GlobalPtr{pe, offset}, from, to); }));
  });
}

// The other PEs need not know the size: the root's goes first.
nb::bytes Broadcast(Transport& self, nb::bytes bytes, int root) {
  uint64_t size = bytes.size();
  Blocking([&] { return self.Broadcast(std::as_writable_bytes(std::span(&size, 1)), root); });
  nb::bytes out = self.my_pe() == root ? NewBytes(0) : NewBytes(size);
  // The root's own object is not written to: Broadcast leaves the root's bytes alone.
  const auto span = Inside(self.my_pe() == root ? bytes : out);
  Blocking([&] { return self.Broadcast(span, root); });
  return self.my_pe() == root ? bytes : out;
}

nb::typed<nb::list, nb::bytes> AllGather(Transport& self, nb::bytes mine) {
  const auto gathered = Blocking([&] { return self.AllGatherV(Inside(mine)); });
  nb::typed<nb::list, nb::bytes> out;
  for (const auto& bytes : gathered) out.append(ToBytes(bytes));
  return out;
}

nb::typed<nb::list, nb::bytes> AllToAll(Transport& self, const std::vector<nb::bytes>& pieces) {
  const size_t n_pes = self.n_pes();
  const size_t size = pieces.empty() ? 0 : pieces[0].size();
  const auto has_size = [&](const nb::bytes& piece) { return piece.size() == size; };
  if (pieces.size() != n_pes || !std::all_of(pieces.begin(), pieces.end(), has_size)) {
    Check(arrow::Status::Invalid("[alltoall] needs ", n_pes, " pieces of equal size, got ",
                                 pieces.size(), ", PE ", self.my_pe(), "/", n_pes));
  }
  std::vector<std::byte> mine;
  for (const nb::bytes& piece : pieces) {
    const auto bytes = Inside(piece);
    mine.insert(mine.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> out(mine.size());
  Blocking([&] { return self.AllToAll(mine, out); });
  nb::typed<nb::list, nb::bytes> result;
  for (size_t pe = 0; pe < n_pes; ++pe)
    result.append(ToBytes(std::span(out).subspan(pe * size, size)));
  return result;
}

void Reduce(Transport& self, nb::ndarray<nb::c_contig, nb::device::cpu> values,
            std::string_view op) {
  const NumericType type = Check(TypeOf(values.dtype()));
  const ReduceOp operation = Check(OpOf(op));
  const std::span<std::byte> bytes(static_cast<std::byte*>(values.data()), values.nbytes());
  Blocking([&] { return self.Reduce(bytes, type, operation); });
}

TransportOptions Options(uint64_t segment_bytes, double timeout_s) {
  return {segment_bytes, timeout_s, CheckPythonSignals};
}

void BindOpening(nb::module_& m) {
  m.def(
      "open_posix_shm",
      [](uint64_t segment_bytes, double timeout_s, int my_pe, int n_pes, int fd) {
        const TransportOptions options = Options(segment_bytes, timeout_s);
        return Blocking([&] { return OpenPosixShm(options, my_pe, n_pes, fd); });
      },
      nb::arg("segment_bytes"), nb::arg("timeout_s"), nb::arg("my_pe"), nb::arg("n_pes"),
      nb::arg("fd"));
  m.def(
      "open_posix_shm_alone",
      [](uint64_t segment_bytes, double timeout_s) {
        return Check(OpenPosixShmAlone(Options(segment_bytes, timeout_s)));
      },
      nb::arg("segment_bytes"), nb::arg("timeout_s"));
  m.def(
      "open_openshmem",
      [](uint64_t segment_bytes, double timeout_s, std::string module_path, bool is_started,
         bool may_shrink, uint64_t slack_bytes) {
        const TransportOptions options = Options(segment_bytes, timeout_s);
        const OpenShmemOptions library{std::move(module_path), is_started, may_shrink, slack_bytes};
        return Blocking([&] { return OpenOpenShmem(options, library); });
      },
      nb::arg("segment_bytes"), nb::arg("timeout_s"), nb::arg("module_path"), nb::arg("is_started"),
      nb::arg("may_shrink"), nb::arg("slack_bytes"));
  m.def(
      "create_segment_file",
      [](uint64_t segment_bytes, int n_pes) {
        return Check(CreateSegmentFile(segment_bytes, n_pes));
      },
      nb::arg("segment_bytes"), nb::arg("n_pes"));
}

}  // namespace

void bind_transport(nb::module_& m) {
  nb::class_<Transport>(m, "Transport", nb::dynamic_attr())
      .def_prop_ro("name", &Transport::name)
      .def_prop_ro("my_pe", &Transport::my_pe)
      .def_prop_ro("n_pes", &Transport::n_pes)
      .def_prop_ro("segment_size", &Transport::segment_size)
      .def(
          "has_peer", [](Transport& self, int pe) { return self.peer(pe) != nullptr; },
          nb::arg("pe"))
      .def("put", Put, nb::arg("pe"), nb::arg("offset"), nb::arg("buffer"))
      .def("get", Get, nb::arg("pe"), nb::arg("offset"), nb::arg("nbytes"))
      .def("put_nbi", PutNbi, nb::arg("pe"), nb::arg("offset"), nb::arg("buffer"))
      .def("quiet", Quiet)
      .def("fence", [](Transport& self) { Blocking([&] { return self.Fence(); }); })
      .def("fetch_add", FetchAdd, nb::arg("pe"), nb::arg("offset"), nb::arg("value"),
           nb::arg("dtype") = "int64")
      .def("compare_swap", CompareSwap, nb::arg("pe"), nb::arg("offset"), nb::arg("expected"),
           nb::arg("desired"), nb::arg("dtype") = "int64")
      .def("barrier", [](Transport& self) { Blocking([&] { return self.Barrier(); }); })
      .def("broadcast", Broadcast, nb::arg("bytes"), nb::arg("root"))
      .def("allgather", AllGather, nb::arg("bytes"))
      .def("alltoall", AllToAll, nb::arg("pieces"))
      .def("reduce", Reduce, nb::arg("values"), nb::arg("op"),
           nb::sig("def reduce(self, values: numpy.typing.NDArray[typing.Any], op: str) -> None"))
      .def("set_phase", &Transport::SetPhase, nb::arg("phase"))
      .def("phase_of", &Transport::PhaseOf, nb::arg("pe"))
      .def(
          "abort",
          [](Transport& self, int code, std::string_view message) { self.Abort(code, message); },
          nb::arg("code"), nb::arg("message"))
      .def("finalize", [](Transport& self) { Blocking([&] { return self.Finalize(); }); });
  BindOpening(m);
  m.attr("HEAP_BEGIN") = Transport::kReservedBytes + Catalog::kDirectoryBytes;
  // For the launcher, which marks in the memory file that a PE is gone.
  m.attr("STATE_OFFSET") = offsetof(ReservedArea, state);
  m.attr("STATE_RUNNING") = static_cast<uint32_t>(PeState::kRunning);
  m.attr("STATE_FINISHED") = static_cast<uint32_t>(PeState::kFinished);
  m.attr("STATE_KILLED") = static_cast<uint32_t>(PeState::kKilled);
}

}  // namespace flightshmem::bindings
