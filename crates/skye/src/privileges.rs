//! Becoming another user, for good, before anything is opened.

use std::fmt;

use model::UserError;
use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, setgroups, setresgid, setresuid};

/// The user and group that the process has now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    uid: u32,
    gid: u32,
}

impl Identity {
    /// Returns the identity that the process has now.
    pub fn current() -> Self {
        Self { uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    /// Returns true for root, to whom nothing is forbidden.
    pub fn is_root(self) -> bool {
        self.uid == 0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uid:{}, gid:{}", self.uid, self.gid)
    }
}

/// Becomes a user, by name or number, and gives up all other groups. The group is the named one, else the user's own. A
/// group alone leaves the user as it is.
///
/// # Errors
/// There is no such user or group, or only root could become it. Nothing was changed then, or the process must end.
pub fn become_user(user: Option<&str>, group: Option<&str>) -> Result<Identity, UserError> {
    let current = Identity::current();
    let requested_identity = requested_identity(user, group, current)?;
    if requested_identity == current && !current.is_root() {
        return Ok(current);
    }
    let action = || format!("become {requested_identity}");
    if !current.is_root() {
        return Err(UserError::new(action(), "only root can switch to another user")
            .help("drop -u and -g, or start it as root"));
    }
    let (uid, gid) = (Uid::from_raw(requested_identity.uid), Gid::from_raw(requested_identity.gid));
    // The groups come first: afterwards, the right to give them up is gone.
    setgroups(&[gid])
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid))
        .map_err(|errno| UserError::new(action(), std::io::Error::from(errno)))?;
    if Identity::current() != requested_identity {
        return Err(UserError::new(
            action(),
            format!("the kernel switched to {} instead", Identity::current()),
        ));
    }
    if !requested_identity.is_root() {
        give_up_capabilities().map_err(|error| UserError::new(action(), error))?;
    }
    Ok(requested_identity)
}

/// Gives up root's capabilities. A process keeps them when it changes its user, if its security bits say so.
fn give_up_capabilities() -> std::io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let left = capabilities(None)?;
    match left.effective | left.permitted | left.inheritable {
        left if left.is_empty() => Ok(()),
        _ => Err(std::io::Error::other("it still has root's capabilities")),
    }
}

/// `(uid_t)-1`: leaves an ID unchanged in setresuid(2). No user or group has it.
const UNCHANGED_ID: u32 = u32::MAX;

/// Returns the numbers of the named user and group.
fn requested_identity(
    user: Option<&str>,
    group: Option<&str>,
    current: Identity,
) -> Result<Identity, UserError> {
    let mut identity = current;
    if let Some(word) = user {
        let action = || format!("switch to the user `{word}`");
        let number = word.parse::<u32>().ok();
        let found = match number {
            Some(number) => User::from_uid(Uid::from_raw(number)),
            None => User::from_name(word),
        };
        let found = found.map_err(|errno| UserError::new(action(), std::io::Error::from(errno)))?;
        identity = match (found, number) {
            (Some(user), _) => Identity { uid: user.uid.as_raw(), gid: user.gid.as_raw() },
            // A user number without a name belongs to no group.
            (None, Some(uid)) if uid != UNCHANGED_ID => {
                Identity { uid, gid: group_of("nogroup")?.unwrap_or(uid) }
            }
            (None, _) => {
                return Err(UserError::new(action(), "there is no such user").help(help("user", "passwd")));
            }
        };
    }
    if let Some(word) = group {
        identity.gid = group_of(word)?.ok_or_else(|| {
            UserError::new(format!("switch to the group `{word}`"), "there is no such group")
                .help(help("group", "group"))
        })?;
    }
    Ok(identity)
}

/// Returns advice on a name that the C library does not know. A static one has no modules for directories of users.
fn help(kind: &str, database: &str) -> String {
    if cfg!(target_feature = "crt-static") {
        return format!("use an ID, or a name in /etc/{database}: the static program reads no other source");
    }
    format!("use a {kind} name or ID; getent {database} lists them")
}

/// Returns the number of a group, by its name or number. A number need not have a name.
fn group_of(word: &str) -> Result<Option<u32>, UserError> {
    if let Ok(number) = word.parse() {
        return Ok(Some(number).filter(|number| *number != UNCHANGED_ID));
    }
    let found = Group::from_name(word).map_err(|errno| {
        UserError::new(format!("switch to the group `{word}`"), std::io::Error::from(errno))
    })?;
    Ok(found.map(|group| group.gid.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_accepted_by_name_or_number() {
        let current = Identity { uid: 7, gid: 8 };
        let of = |user: Option<&str>, group: Option<&str>| {
            requested_identity(user, group, current)
                .map(|found| (found.uid, found.gid))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(None, None), Ok((7, 8)));
        for (user, group) in [(Some("4294967295"), None), (None, Some("4294967295"))] {
            assert!(of(user, group).is_err(), "the kernel would leave it as it is");
        }
        assert_eq!(of(Some("root"), None), Ok((0, 0)));
        assert_eq!(of(Some("0"), Some("5")), Ok((0, 5)));
        assert_eq!(of(None, Some("root")), Ok((7, 0)));
        assert_eq!(of(Some("3999999999"), Some("9")), Ok((3_999_999_999, 9)), "a number without a name");
        assert!(of(Some("no such user"), None).unwrap_err().contains("there is no such user"));
        assert!(of(None, Some("no such group")).unwrap_err().contains("there is no such group"));
    }

    #[test]
    fn same_user_needs_no_privileges() {
        let current = Identity::current();
        let own = current.uid.to_string();
        let same = become_user(Some(&own), Some(&current.gid.to_string()));
        assert_eq!(same.map_err(|error| error.to_string()), Ok(current));
    }
}
