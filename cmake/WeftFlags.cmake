# Flags that every target of the project shares, and those of each instruction set.
add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE -Wall -Wextra -Wpedantic -Wformat=2 -Wvla -Wshadow -Wstrict-prototypes
  -Wcast-qual -Wundef -ffp-contract=off -fno-strict-aliasing -fno-math-errno -fno-trapping-math)
target_compile_definitions(weft_flags INTERFACE _GNU_SOURCE)
if(WEFT_WERROR)
  target_compile_options(weft_flags INTERFACE -Werror)
endif()
if(WEFT_DEBUG)
  target_compile_definitions(weft_flags INTERFACE WEFT_DEBUG)
endif()
if(WEFT_SANITIZE)
  # gcc's own checks for values that may not be set are not to be relied on in instrumented code (gcc manual,
  # -Wmaybe-uninitialized); the builds without sanitizers have them.
  target_compile_options(weft_flags INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
else()
  target_compile_options(weft_flags INTERFACE -U_FORTIFY_SOURCE -fstack-protector-strong)
endif()

set(WEFT_ISAS portable)
set(WEFT_FLAGS_portable "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(WEFT_ISAS portable avx2 avx512)
  set(WEFT_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(WEFT_FLAGS_avx512 -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
endif()
