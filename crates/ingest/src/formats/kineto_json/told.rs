//! What a trace says of itself outside its events: base time, devices, rank, how it was recorded.

use std::io::BufRead;

use crate::json::{Json, JsonResult};

/// Most devices and messages taken.
const MAX_DEVICES: usize = 4_096;
const MAX_MESSAGES: usize = 8;

/// One entry of `deviceProperties`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeviceProperties {
    pub(super) id: Option<i64>,
    pub(super) name: String,
    pub(super) memory_bytes: i64,
    pub(super) sm_count: i64,
    pub(super) max_threads_per_sm: i64,
    pub(super) warp_size: i64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Added to every time.
    pub(super) base_ns: i64,
    pub(super) devices: Vec<DeviceProperties>,
    pub(super) rank: Option<i64>,
    pub(super) world_size: Option<i64>,
    pub(super) host: String,
    pub(super) is_rocm: bool,
    pub(super) with_stack: bool,
    pub(super) record_shapes: bool,
    /// Warnings and errors of the profiler.
    pub(super) messages: Vec<String>,
}

impl Told {
    /// Reads the value of a key beside the events.
    pub(super) fn member<R: BufRead>(&mut self, key: &str, json: &mut Json<R>) -> JsonResult<()> {
        match key {
            "baseTimeNanoseconds" => self.base_ns = json.scaled_ns(0)?.unwrap_or_default(),
            "deviceProperties" if json.peek() == Some(b'[') => json.array(|json| {
                let device = DeviceProperties::read(json)?;
                if self.devices.len() < MAX_DEVICES {
                    self.devices.push(device);
                }
                Ok(())
            })?,
            "distributedInfo" if json.peek() == Some(b'{') => json.object(|key, json| {
                match key {
                    "rank" => self.rank = json.i64()?,
                    "world_size" => self.world_size = json.i64()?,
                    _ => json.skip()?,
                }
                Ok(())
            })?,
            "host_name" | "hostname" => self.host = json.scalar()?.unwrap_or_default(),
            "with_stack" => self.with_stack = is_on(json)?,
            "record_shapes" => self.record_shapes = is_on(json)?,
            "roctracer_version" | "hip_runtime_version" | "hip_driver_version" => {
                self.is_rocm = true;
                json.skip()?;
            }
            "WARNING" | "ERROR" if json.peek() == Some(b'[') => json.array(|json| {
                let message = json.lead()?.unwrap_or_default();
                if self.messages.len() < MAX_MESSAGES && !message.is_empty() {
                    self.messages.push(message);
                }
                Ok(())
            })?,
            _ => json.skip()?,
        }
        Ok(())
    }
}

impl DeviceProperties {
    fn read<R: BufRead>(json: &mut Json<R>) -> JsonResult<Self> {
        let mut it = Self::default();
        if json.peek() != Some(b'{') {
            return json.skip().map(|()| it);
        }
        json.object(|key, json| {
            match key {
                "id" => it.id = json.i64()?,
                "name" => it.name = json.scalar()?.unwrap_or_default(),
                "totalGlobalMem" | "memSize" => it.memory_bytes = json.i64()?.unwrap_or_default(),
                "numSms" | "maxComputeUnits" => it.sm_count = json.i64()?.unwrap_or_default(),
                "maxThreadsPerMultiprocessor" => it.max_threads_per_sm = json.i64()?.unwrap_or_default(),
                "warpSize" => it.warp_size = json.i64()?.unwrap_or_default(),
                _ => json.skip()?,
            }
            Ok(())
        })?;
        Ok(it)
    }
}

/// `1` or `true`.
fn is_on<R: BufRead>(json: &mut Json<R>) -> JsonResult<bool> {
    Ok(matches!(json.scalar()?.as_deref(), Some("1" | "true" | "True")))
}
