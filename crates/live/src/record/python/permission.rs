//! Why the memory of a process may not be read, and what would allow it (ptrace(2), capabilities(7)).

use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// The right to look into other processes, as a bit of `CapEff`.
const SYS_PTRACE: u64 = 1 << 19;

/// What decides about the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rights {
    own_uid: u32,
    /// Owner of the process, where it tells.
    uid: Option<u32>,
    /// Capabilities of this program.
    capabilities: u64,
    /// `kernel.yama.ptrace_scope`; 0 where the kernel has none.
    scope: u32,
}

/// Why `pid` may not be read and what to do, as the end of a sentence.
pub(super) fn remedy(pid: u32) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    let rights = Rights {
        own_uid: fs::metadata("/proc/self").map_or(0, |own| own.uid()),
        uid: fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid()),
        capabilities: capabilities.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0),
        scope: scope.and_then(|scope| scope.trim().parse().ok()).unwrap_or(0),
    };
    sentence(&rights)
}

fn sentence(rights: &Rights) -> String {
    const CONTAINER: &str = "start this program's container with `--cap-add SYS_PTRACE` (Kubernetes: \
                             `securityContext.capabilities.add: [\"SYS_PTRACE\"]`)";
    let may_look = rights.capabilities & SYS_PTRACE != 0;
    match (rights.scope, rights.uid) {
        (3.., _) => "`kernel.yama.ptrace_scope` is 3, which forbids it to everyone until the machine starts anew with a lower one".into(),
        (2, _) if !may_look => format!("`kernel.yama.ptrace_scope` is 2: run this as root; in a container, {CONTAINER}"),
        (_, Some(uid)) if !may_look && rights.own_uid != 0 && uid != rights.own_uid => {
            format!("it belongs to the user with id {uid}: run this as that user (`sudo -u '#{uid}'`) or as root")
        }
        (1, _) if !may_look && rights.own_uid != 0 => {
            "`kernel.yama.ptrace_scope` is 1: run `sudo sysctl kernel.yama.ptrace_scope=0`, or this as root".to_string()
        }
        (_, _) if !may_look => format!("this program lacks the right to look into other processes: {CONTAINER}"),
        (_, _) => "the kernel refused although this program has the right: a security policy (seccomp, SELinux, AppArmor) or a \
                   namespace stands between; run it on the host, or in the engine's own container"
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_reason_has_its_remedy() {
        let user = Rights { own_uid: 1000, uid: Some(1000), capabilities: 0, scope: 0 };
        let root = Rights { own_uid: 0, uid: Some(0), capabilities: 0, scope: 0 };
        let cases = [
            Rights { scope: 1, ..user },
            Rights { uid: Some(1001), scope: 1, ..user },
            Rights { scope: 2, ..user },
            Rights { scope: 3, capabilities: u64::MAX, ..root },
            user,
            root,
            Rights { scope: 1, ..root },
            Rights { capabilities: u64::MAX, ..root },
        ];
        let told: Vec<String> = cases.iter().map(sentence).collect();
        expect![[r#"
            `kernel.yama.ptrace_scope` is 1: run `sudo sysctl kernel.yama.ptrace_scope=0`, or this as root
            it belongs to the user with id 1001: run this as that user (`sudo -u '#1001'`) or as root
            `kernel.yama.ptrace_scope` is 2: run this as root; in a container, start this program's container with `--cap-add SYS_PTRACE` (Kubernetes: `securityContext.capabilities.add: ["SYS_PTRACE"]`)
            `kernel.yama.ptrace_scope` is 3, which forbids it to everyone until the machine starts anew with a lower one
            this program lacks the right to look into other processes: start this program's container with `--cap-add SYS_PTRACE` (Kubernetes: `securityContext.capabilities.add: ["SYS_PTRACE"]`)
            this program lacks the right to look into other processes: start this program's container with `--cap-add SYS_PTRACE` (Kubernetes: `securityContext.capabilities.add: ["SYS_PTRACE"]`)
            this program lacks the right to look into other processes: start this program's container with `--cap-add SYS_PTRACE` (Kubernetes: `securityContext.capabilities.add: ["SYS_PTRACE"]`)
            the kernel refused although this program has the right: a security policy (seccomp, SELinux, AppArmor) or a namespace stands between; run it on the host, or in the engine's own container
        "#]].assert_eq(&(told.join("\n") + "\n"));
    }
}
