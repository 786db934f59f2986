#include "kernels/simd/avx2.h"
// The body needs the vectors before it.
#include "kernels/adamw/adamw_vector.h"

namespace zenflow::kernels {

template <class Param, class Moment, class Grad, class Out>
void adamw_avx2(const AdamWCall<Param, Moment, Grad, Out>& call) {
  update_range(call);
}

template <class Grad, class Out>
void adamw_columns_avx2(const AdamWColumnsCall<Grad, Out>& call) {
  update_rows(call);
}

template void adamw_avx2(const AdamWCall<float, float, float, NoCopy>&);
template void adamw_avx2(const AdamWCall<float, float, float, float>&);
template void adamw_avx2(const AdamWCall<float, float, float, Bf16>&);
template void adamw_avx2(const AdamWCall<float, float, Bf16, NoCopy>&);
template void adamw_avx2(const AdamWCall<float, float, Bf16, float>&);
template void adamw_avx2(const AdamWCall<float, float, Bf16, Bf16>&);
template void adamw_avx2(const AdamWCall<Bf16, float, Bf16, NoCopy>&);
template void adamw_avx2(const AdamWCall<Bf16, Bf16, Bf16, NoCopy>&);
template void adamw_columns_avx2(const AdamWColumnsCall<float, float>&);
template void adamw_columns_avx2(const AdamWColumnsCall<float, Bf16>&);
template void adamw_columns_avx2(const AdamWColumnsCall<Bf16, float>&);
template void adamw_columns_avx2(const AdamWColumnsCall<Bf16, Bf16>&);

}  // namespace zenflow::kernels
