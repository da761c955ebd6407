//! Matrix products at the model's shapes in BF16 with FP32 sums, by cuBLAS.
//!
//! A product with few tokens reads its weights once; several copies of small weights are used in turn, so that they come
//! from memory and not from the cache, as they do in a step.

use std::ffi::c_int;
use std::time::Duration;

use cudarc::cublas::sys::{cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t, cudaDataType};
use cudarc::cublas::{CudaBlas, result, sys};
use cudarc::driver::{CudaSlice, DevicePtr as _, DevicePtrMut as _};

use super::super::{Matrix, Measured, Plan};
use super::Device;

/// Weights in turn are at least this many bytes: several times the largest cache of a device.
const BEYOND_CACHE: usize = 512 << 20;

/// Each matrix at the tokens of a decode step and of a prompt.
pub(super) fn run(device: &Device, plan: &Plan, budget: Duration) -> Result<Vec<Measured>, String> {
    // SAFETY: loading cuBLAS runs its initializers, as any program that uses it does.
    if !unsafe { sys::is_culib_present() } {
        return Err("the library cuBLAS (libcublas) was not found".to_string());
    }
    let blas = CudaBlas::new(device.stream.clone()).map_err(|error| format!("cuBLAS says: {error}"))?;
    let sizes = [("decode", plan.batch), ("prefill", plan.prompt)];
    let parts = u32::try_from(plan.shapes.matrices.len() * sizes.len()).unwrap_or(u32::MAX).max(1);
    let mut rows = Vec::new();
    for matrix in &plan.shapes.matrices {
        for (phase, tokens) in sizes {
            rows.push(one(device, &blas, *matrix, phase, tokens.max(1), budget / parts)?);
        }
    }
    Ok(rows)
}

fn one(device: &Device, blas: &CudaBlas, matrix: Matrix, phase: &str, tokens: u32, budget: Duration) -> Result<Measured, String> {
    let (inputs, outputs, rows) = (matrix.inputs.max(1) as usize, matrix.outputs.max(1) as usize, tokens as usize);
    let weight_bytes = 2 * inputs * outputs;
    let copies = BEYOND_CACHE.div_ceil(weight_bytes).clamp(1, 64);
    if copies * weight_bytes + 2 * rows * (inputs + outputs) > device.budget_bytes()? {
        return Err(format!("{} of {inputs} x {outputs} does not fit into a quarter of the free memory", matrix.name));
    }
    let weights = device.filled(copies * weight_bytes.div_ceil(4))?;
    let states = device.filled((rows * inputs).div_ceil(2))?;
    let mut out = device.filled((rows * outputs).div_ceil(2))?;
    let product = Product { inputs: to_int(inputs)?, outputs: to_int(outputs)?, tokens: to_int(rows)?, weight_bytes };
    let spread = device.timed(budget, |call| product.enqueue(device, blas, (&weights, call as usize % copies), &states, &mut out))?;
    let flop = 2.0 * (inputs * outputs) as f64 * f64::from(tokens);
    let read = weight_bytes as f64 / spread.median * 1e-9;
    Ok(Measured {
        operator: "gemm",
        title: format!("matrix product {}, {tokens} tokens", matrix.name),
        signal: "bench.flops",
        labels: vec![("kernel", matrix.name.to_string()), ("phase", phase.to_string())],
        value: spread.rate_of(flop),
        data_sheet: device.sheet.and_then(|sheet| sheet.bf16_flops),
        how: format!("BF16, {inputs} inputs x {outputs} outputs, cuBLAS; weights read at {read:.0} GB/s"),
    })
}

/// One product; sizes as cuBLAS takes them.
#[derive(Clone, Copy, Debug)]
struct Product {
    inputs: c_int,
    outputs: c_int,
    tokens: c_int,
    weight_bytes: usize,
}

impl Product {
    /// cuBLAS counts by columns: `[outputs x inputs]` by rows is its transpose, so the weights are transposed back.
    fn enqueue(
        &self,
        device: &Device,
        blas: &CudaBlas,
        (weights, copy): (&CudaSlice<u32>, usize),
        states: &CudaSlice<u32>,
        out: &mut CudaSlice<u32>,
    ) -> Result<(), String> {
        let (one, zero) = (1.0f32, 0.0f32);
        let bf16 = cudaDataType::CUDA_R_16BF;
        let (weights, _weights_use) = weights.device_ptr(&device.stream);
        let (states, _states_use) = states.device_ptr(&device.stream);
        let (out, _out_use) = out.device_ptr_mut(&device.stream);
        // SAFETY: the three memories are as large as the sizes say, `copy` names a whole copy of the weights, and the scalars
        // live on the host, where cuBLAS reads them before it returns.
        let product = unsafe {
            result::gemm_ex(
                *blas.handle(),
                cublasOperation_t::CUBLAS_OP_T,
                cublasOperation_t::CUBLAS_OP_N,
                self.outputs,
                self.tokens,
                self.inputs,
                (&raw const one).cast(),
                (weights + (copy * self.weight_bytes) as u64) as *const _,
                bf16,
                self.inputs,
                states as *const _,
                bf16,
                self.inputs,
                (&raw const zero).cast(),
                out as *mut _,
                bf16,
                self.outputs,
                cublasComputeType_t::CUBLAS_COMPUTE_32F,
                cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        product.map_err(|error| format!("cuBLAS says: {error}"))
    }
}

fn to_int(size: usize) -> Result<c_int, String> {
    c_int::try_from(size).map_err(|_| format!("a size of {size} is beyond cuBLAS"))
}
