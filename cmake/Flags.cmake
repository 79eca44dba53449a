# Flags of every target. Contraction to fused multiply-add would change bits between compilers and
# machines; the pragmas of the OpenACC backend are comments to the host compiler.
add_library(rpa_flags INTERFACE)
target_compile_options(rpa_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas)
if(RLLIB_PER_ACC_SANITIZE)
  set(sanitize -fsanitize=${RLLIB_PER_ACC_SANITIZE} -fno-sanitize-recover=all
      -fno-omit-frame-pointer)
  target_compile_options(rpa_flags INTERFACE ${sanitize})
  target_link_options(rpa_flags INTERFACE ${sanitize})
endif()
