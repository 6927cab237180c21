//! The layers under a directory, as a graph. It has file systems, both sides of an overlay, devices, and images of loop
//! devices with their page caches. It also has programs that serve FUSE, and the interfaces on the route to a server.
//!
//! A layer that is reached by several paths is there once. Where a layer hides what is below it, the graph says why. No path
//! is followed to a server: a dead one never answers.

mod daemon;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use model::layer::{Layer, LayerKind};
use model::target::{Device, DeviceKind};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use self::daemon::Daemons;
use crate::block_device::backing;
use crate::loop_file::leads_to;
use crate::mount;
use crate::netlink::{interface_to, tcp_sockets};
use crate::parse::mountinfo::Mount;
use crate::parse::tcp_sockets::TcpSocket;
use crate::root::Root;
use crate::stack::{MEMORY, Stack, is_fuse, is_remote, stack_of_mount};

/// Most layers of a graph: a mount may lead back to itself.
const LAYERS_MAX: usize = 256;
/// Reason of a layer below which the graph is full.
const FULL: &str = "more layers are not listed";

/// Returns the layers under a mount with this stack, each before those below it.
pub(crate) fn layers_of_mount(root: &Root, mounts: &[Mount], mount: &Mount, stack: &Stack) -> Vec<Layer> {
    let mut graph = Graph::new(root, mounts);
    graph.add_mount(mount, Some(stack));
    graph.sorted()
}

/// Returns the layers under the first device of a stack.
pub(crate) fn layers_of_device(root: &Root, mounts: &[Mount], stack: &Stack) -> Vec<Layer> {
    let mut graph = Graph::new(root, mounts);
    stack.devices.first().and_then(|top| graph.add_device(&stack.devices, top));
    graph.sorted()
}

/// Origin of a layer that is made once.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A mounted file system, by the numbers of its device.
    FileSystem(u32, u32),
    /// A device, by its name.
    Device(String),
    /// A program, by its process.
    Process(i32),
    /// A network interface, by its name.
    Interface(String),
    /// Pages of the file below this device, or its memory.
    Below(String),
}

struct Graph<'a> {
    root: &'a Root,
    mounts: &'a [Mount],
    layers: Vec<Layer>,
    /// Source of each layer.
    sources: Vec<Source>,
    /// Programs that serve FUSE, once they were searched for.
    daemons: Option<Daemons>,
}

/// Place of a layer, and whether it is new.
struct Added {
    at: usize,
    is_new: bool,
}

impl<'a> Graph<'a> {
    fn new(root: &'a Root, mounts: &'a [Mount]) -> Self {
        Self { root, mounts, layers: Vec::new(), sources: Vec::new(), daemons: None }
    }

    /// Adds a layer without those below it. Returns its place, or that of the same layer from before; `None` if the graph
    /// is full.
    fn add(&mut self, source: Source, kind: LayerKind, name: &str) -> Option<Added> {
        if let Some(at) = self.sources.iter().position(|known| *known == source) {
            return Some(Added { at, is_new: false });
        }
        if self.layers.len() == LAYERS_MAX {
            return None;
        }
        self.sources.push(source);
        self.layers.push(Layer::new(kind, name));
        Some(Added { at: self.layers.len() - 1, is_new: true })
    }

    /// Puts a layer below another; without one, the graph is full.
    fn link(&mut self, above: usize, below: Option<usize>) {
        match below.map(|below| below as u32) {
            Some(below) if self.layers[above].below.contains(&below) => {}
            Some(below) => self.layers[above].below.push(below),
            None => self.hide(above, FULL),
        }
    }

    fn hide(&mut self, at: usize, reason: &str) {
        self.layers[at].hidden = Some(reason.to_owned());
    }

    fn add_mount(&mut self, mount: &Mount, stack: Option<&Stack>) -> Option<usize> {
        let name = mount.file_system.as_str();
        let kind = match name {
            "overlay" => LayerKind::Overlay,
            name if is_fuse(name) => LayerKind::Fuse,
            name if MEMORY.contains(&name) => LayerKind::Memory,
            name if is_remote(name) => LayerKind::Remote,
            _ => LayerKind::FileSystem,
        };
        let Added { at, is_new } = self.add(Source::FileSystem(mount.major, mount.minor), kind, name)?;
        if !is_new {
            return Some(at);
        }
        let has_requests = kind == LayerKind::Remote || daemon::has_program(mount);
        self.layers[at].number = has_requests.then(|| mount.device_number());
        match kind {
            LayerKind::Overlay => self.add_overlay(at, mount),
            LayerKind::Fuse => self.add_daemon(at, mount),
            LayerKind::Remote => self.add_server(at, mount),
            LayerKind::FileSystem => match stack {
                Some(stack) => self.add_tops(at, stack),
                None => {
                    let stack = stack_of_mount(self.root, self.mounts, mount, (mount.major, mount.minor));
                    self.add_tops(at, &stack);
                }
            },
            _ => {}
        }
        Some(at)
    }

    /// Adds the line to the server of a network file system, whose options have its address. The mount may belong to another
    /// network namespace, or use RDMA: then nothing here is connected to the server.
    fn add_server(&mut self, at: usize, mount: &Mount) {
        let address = mount
            .super_options
            .iter()
            .find_map(|option| option.strip_prefix("addr=")?.parse::<IpAddr>().ok());
        let sockets = self.root.is_system().then(tcp_sockets).unwrap_or_default();
        let to_server = sockets.into_iter().filter(|socket| Some(socket.remote) == address);
        self.add_lines(at, &Vec::from_iter(to_server));
        if self.layers[at].below.is_empty() {
            self.hide(at, Layer::ON_SERVER);
        }
    }

    /// Adds the interfaces through which these sockets send, each with the shortest round trip of its sockets.
    fn add_lines(&mut self, at: usize, sockets: &[TcpSocket]) {
        for socket in sockets {
            let Some(name) = interface_to(socket.remote) else { continue };
            let line = self.add(Source::Interface(name.clone()), LayerKind::Line, &name);
            self.link(at, line.as_ref().map(|line| line.at));
            if let Some(Added { at, .. }) = line {
                self.hide(at, Layer::ON_SERVER);
                let shortest_ns = &mut self.layers[at].round_trip_ns;
                *shortest_ns = socket.round_trip_ns.into_iter().chain(*shortest_ns).min();
            }
        }
    }

    /// Adds the devices that a file system uses itself.
    fn add_tops(&mut self, at: usize, stack: &Stack) {
        if stack.tops.is_empty() {
            self.hide(at, "its devices are not visible here");
        }
        for device in stack.devices.iter().filter(|device| stack.tops.contains(&device.name)) {
            let below = self.add_device(&stack.devices, device);
            self.link(at, below);
        }
    }

    /// Returns the mount of a path that the kernel has in use, if something is there. A path of another mount namespace mostly
    /// leads nowhere.
    fn mount_of(&self, path: &str) -> Option<&'a Mount> {
        let mount = mount::find(self.mounts, None, path).filter(|_| Path::new(path).is_absolute())?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let is_here = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
            _ if !self.root.is_system() => true,
            // Before Linux 5.12, a path cannot be looked up in the cache alone.
            Err(Errno::INVAL | Errno::NOSYS) => true,
            // What is in use is cached, but a name on a server is valid only for a while.
            Err(Errno::AGAIN) => daemon::has_program(mount) || is_remote(&mount.file_system),
            found => found.is_ok(),
        };
        Some(mount).filter(|_| is_here)
    }

    /// Adds the directories of an overlay, the writable one first.
    fn add_overlay(&mut self, at: usize, mount: &Mount) {
        let directories = directories(&mount.super_options);
        if directories.is_empty() {
            self.hide(at, "its directories are not visible here");
        }
        for directory in directories {
            match self.mount_of(&directory).filter(|found| found.id != mount.id) {
                Some(found) => {
                    let below = self.add_mount(found, None);
                    self.link(at, below);
                }
                None => self.hide(at, "a directory of it is not visible here"),
            }
        }
    }

    fn add_device(&mut self, devices: &[Device], device: &Device) -> Option<usize> {
        let name = &device.name;
        let Added { at, is_new } = self.add(Source::Device(name.clone()), LayerKind::Device, name)?;
        if !is_new {
            return Some(at);
        }
        match device.kind {
            DeviceKind::Loop => self.add_image(at, name),
            _ if name.starts_with("nbd") => {
                // The process that connected it, as long as that runs. Another may have its number afterwards.
                let is_client = |process: &i32| {
                    let program = self.root.line(&format!("proc/{process}/comm")).unwrap_or_default();
                    program.starts_with("nbd") || program.starts_with("qemu-nbd")
                };
                let client = self.root.number(&format!("sys/class/block/{name}/pid")).filter(is_client);
                if let Some(client) = client {
                    self.add_connections(at, client, &mut BTreeSet::new());
                }
                if self.layers[at].below.is_empty() {
                    self.hide(at, Layer::ON_SERVER);
                }
            }
            DeviceKind::Zram => {
                let memory = self.add(Source::Below(name.clone()), LayerKind::Memory, "memory");
                self.link(at, memory.map(|added| added.at));
            }
            _ => {
                let lower = |name: &String| devices.iter().find(|other| other.name == *name);
                for device in device.backing_devices.iter().filter_map(lower) {
                    let below = self.add_device(devices, device);
                    self.link(at, below);
                }
            }
        }
        Some(at)
    }

    /// Adds the file below a loop device: its pages, unless they are bypassed, and its file system.
    fn add_image(&mut self, at: usize, name: &str) {
        let attribute = |file: &str| self.root.line(&format!("sys/class/block/{name}/loop/{file}"));
        let is_direct = attribute("dio").as_deref() == Some("1");
        let path = attribute("backing_file");
        let Some(mount) = path.and_then(|path| self.mount_of_image(name, &path)) else {
            return self.hide(at, "its file is not visible here");
        };
        let file_system = self.add_mount(mount, None);
        let is_memory = file_system.is_some_and(|below| self.layers[below].kind == LayerKind::Memory);
        if is_direct || is_memory {
            return self.link(at, file_system);
        }
        let pages = self.add(Source::Below(name.to_owned()), LayerKind::PageCache, "page cache");
        self.link(at, pages.as_ref().map(|pages| pages.at));
        if let Some(pages) = pages {
            self.link(pages.at, file_system);
        }
    }

    /// Returns the mount with the file of a loop device. Its path may be that of another mount namespace.
    fn mount_of_image(&self, device: &str, path: &str) -> Option<&'a Mount> {
        // A deleted file was in the directory.
        let directory = path.strip_suffix(" (deleted)").and_then(|path| path.rsplit_once('/'));
        let found = self.mount_of(directory.map_or(path, |(directory, _)| directory));
        // To tell the file, the kernel asks its file system: a dead server would never answer.
        let is_safe = self.root.is_system() && found.is_some_and(daemon::is_local);
        // A user may not open the device.
        let device = is_safe.then(|| self.root.open(&format!("dev/{device}"))).flatten();
        let Some(backing) = device.and_then(backing) else { return found };
        let is_it = |mount: &&Mount| (mount.major, mount.minor) == backing.file.device;
        // The files of btrfs have other numbers than its mounts.
        let is_path = |mount: &&Mount| daemon::is_local(mount) && leads_to(path, backing.file);
        found.filter(is_it).or_else(|| self.mounts.iter().find(is_it)).or(found.filter(is_path))
    }

    /// Returns the layers so that each is before those below it.
    fn sorted(self) -> Vec<Layer> {
        let mut order = Vec::new();
        let mut is_visited = vec![false; self.layers.len()];
        if !self.layers.is_empty() {
            visit(&self.layers, 0, &mut is_visited, &mut order);
        }
        order.reverse();
        let place = |at: &u32| order.iter().position(|other| *other == *at as usize);
        let sorted = |(number, at): (usize, &usize)| {
            let layer = &self.layers[*at];
            // A link upwards would be a circle.
            let below = layer.below.iter().filter_map(place).filter(|below| *below > number);
            Layer { below: below.map(|below| below as u32).collect(), ..layer.clone() }
        };
        order.iter().enumerate().map(sorted).collect()
    }
}

/// Adds a layer to the order after all below it.
fn visit(layers: &[Layer], at: usize, is_visited: &mut [bool], order: &mut Vec<usize>) {
    if is_visited[at] {
        return;
    }
    is_visited[at] = true;
    for below in layers[at].below.iter().rev() {
        visit(layers, *below as usize, is_visited, order);
    }
    order.push(at);
}

/// Returns the directories in the options of an overlay, the writable one first. A backslash is before a colon that is part
/// of a path.
fn directories(options: &[String]) -> Vec<String> {
    let values = |names: &'static [&'static str]| {
        let value = |option: &String| {
            let (name, value) = option.split_once('=')?;
            names.contains(&name).then(|| value.to_owned())
        };
        options.iter().filter_map(value).collect::<Vec<_>>()
    };
    let mut directories = values(&["upperdir"]);
    for list in values(&["lowerdir", "lowerdir+", "datadir+"]) {
        let list = list.replace("\\:", "\0");
        directories
            .extend(list.split(':').filter(|path| !path.is_empty()).map(|path| path.replace('\0', ":")));
    }
    directories
}

#[cfg(test)]
mod tests {
    use super::directories;

    #[test]
    fn directories_of_an_overlay_are_split_at_colons() {
        let options = ["rw", "lowerdir=/a:/b\\:c::/d", "upperdir=/up", "workdir=/w", "lowerdir+=/e:f"];
        assert_eq!(directories(&options.map(String::from)), ["/up", "/a", "/b:c", "/d", "/e", "f"]);
        assert!(directories(&[]).is_empty());
    }
}
